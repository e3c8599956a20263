"""Models that could be added: of providers with a key, and of local servers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sshwarma.models import discover as discover_module
from sshwarma.models.discover import LOCAL_SERVERS, discover_models

KEY = "sk-a-key-that-nobody-may-see-0123456789"


class AllAsked:
    """Counts open connections; `wait` ends when `count` of them were open at once."""

    def __init__(self, count: int) -> None:
        self.open_at_once = 0
        self._open = 0
        self._count = count
        self._reached = asyncio.Event()

    def __enter__(self) -> None:
        self._open += 1
        self.open_at_once = max(self._open, self.open_at_once)
        if self._open == self._count:
            self._reached.set()

    def __exit__(self, *_: object) -> None:
        self._open -= 1

    async def wait(self) -> None:
        await self._reached.wait()


async def _listening(
    answer: bytes | None, asked: AllAsked | None = None
) -> tuple[asyncio.Server, int]:
    """A server that answers when all are `asked`; with None it never does."""
    asked = asked or AllAsked(1)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with asked:
            if answer is None:
                await reader.read()  # until the asker gives up
            else:
                await reader.readuntil(b"\r\n\r\n")
                await asked.wait()
                writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + answer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


OLLAMA = b'{"models": [{"name": "qwen3:8b"}, {"name": "me/Qwen3:30b"}, {"name": "3b"}]}'


LLAMACPP = b'{"data": [{"id": "/models/tiny.Q4.gguf", "owned_by": "llamacpp"}]}'


@pytest.mark.process
async def test_discover_offers_models_of_keys_and_local_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(discover_module, "PROBE_TIMEOUT_SECONDS", 30)
    ollama, ollama_port = await _listening(OLLAMA)
    llamacpp, llamacpp_port = await _listening(LLAMACPP)
    local = (
        replace(LOCAL_SERVERS[0], port=ollama_port),
        replace(LOCAL_SERVERS[1], port=llamacpp_port),
    )
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": " "}
    found = await discover_models(keys | {"ANTHROPIC_BASE_URL": "https://gateway.example"}, local)
    ollama.close()
    llamacpp.close()
    assert [(offer.name, offer.kind) for offer in found] == [
        ("gpt", "openai-responses"),
        ("claude", "anthropic"),
        ("qwen3", "ollama"),
        ("qwen3-2", "ollama"),
        ("model-3b", "ollama"),
        ("tiny-q4", "llamacpp"),
    ]
    assert found[1].base_url == "https://gateway.example"
    assert found[2].base_url == f"http://127.0.0.1:{ollama_port}/v1"
    assert found[3].model == "me/Qwen3:30b"
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"",
        b"<html>",
        b"[]",
        b'{"models": 3}',
        b'{"data": [{"id": "x"}]}',
        b"[" * 20_000,
        b'{"models": [{"name": "a", "x": [' + b"[]," * 20_000 + b"1]}]}",
    ],
)
@pytest.mark.process
async def test_discover_ignores_other_services_side_by_side(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They answer once all are asked, or never: then the timeout ends it."""
    probe_seconds = 1.0 if answer is None else 30.0
    monkeypatch.setattr(discover_module, "PROBE_TIMEOUT_SECONDS", probe_seconds)
    asked = AllAsked(len(LOCAL_SERVERS))
    server, port = await _listening(answer, asked)
    async with asyncio.timeout(60):
        found = await discover_models({}, tuple(replace(one, port=port) for one in LOCAL_SERVERS))
    server.close()
    assert found == []
    assert asked.open_at_once == len(LOCAL_SERVERS)


async def test_discover_ignores_an_invalid_base_url() -> None:
    assert await discover_models({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "nonsense"}, ()) == []
