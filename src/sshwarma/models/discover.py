"""Discovery of available models: environment keys, servers on this machine.

The results are complete settings to offer to an owner. Only ports of this machine are probed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from sshwarma.common.json_guard import check_json_size
from sshwarma.common.units import KIB
from sshwarma.settings import ModelKind, ModelSettings

PROBE_TIMEOUT_SECONDS: Final = 0.2
MAX_PROBE_BYTES: Final = 256 * KIB
MAX_MODELS_PER_SERVER: Final = 8


@dataclass(frozen=True, slots=True)
class KeyedProvider:
    """A provider that is offered if the environment has its key.

    `address` names the variable that points its SDK to another base URL, such as a gateway.
    """

    key_variable: str
    address: str
    name: str
    kind: ModelKind
    model: str


@dataclass(frozen=True, slots=True)
class LocalModelServer:
    """A model server on this machine, and a reader of the models in its response."""

    kind: ModelKind
    port: int
    path: str
    models: Callable[[Any], Iterator[str]]


def _list_ollama_models(answer: Any) -> Iterator[str]:
    for model in answer["models"]:
        yield model["name"]


def _list_llamacpp_models(answer: Any) -> Iterator[str]:
    """List llama.cpp's models; other programs use port 8080 too, so check the owner."""
    for model in answer["data"]:
        if model.get("owned_by") == "llamacpp":
            yield model["id"]


KEYED_PROVIDERS: Final = (
    KeyedProvider("OPENAI_API_KEY", "OPENAI_BASE_URL", "gpt", "openai-responses", "gpt-6.1-terra"),
    KeyedProvider(
        "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "claude", "anthropic", "claude-sonnet-5-5"
    ),
    KeyedProvider(
        "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "gemini", "google", "gemini-3.8-flash"
    ),
)

LOCAL_SERVERS: Final = (
    LocalModelServer("ollama", 11434, "/api/tags", _list_ollama_models),
    LocalModelServer("llamacpp", 8080, "/v1/models", _list_llamacpp_models),
)


async def discover_models(
    environ: Mapping[str, str],
    local: tuple[LocalModelServer, ...] = LOCAL_SERVERS,
    taken: Container[str] = (),
) -> list[ModelSettings]:
    """Find available models, each with a unique name that is not in `taken`.

    Takes at most PROBE_TIMEOUT_SECONDS.
    """
    offers: list[ModelSettings] = []
    names = _NameAllocator(taken)
    for offer in _find_keyed_models(environ):
        offers.append(offer.model_copy(update={"name": names.allocate(offer.name)}))
    for server, models in zip(local, await asyncio.gather(*map(_probe_server, local)), strict=True):
        for model in models[:MAX_MODELS_PER_SERVER]:
            base = f"http://127.0.0.1:{server.port}/v1"
            with suppress(ValidationError):  # the model's name is not valid
                offer = ModelSettings(name="a", kind=server.kind, model=model, base_url=base)
                offers.append(offer.model_copy(update={"name": names.allocate(model)}))
    return offers


def _find_keyed_models(environ: Mapping[str, str]) -> Iterator[ModelSettings]:
    for provider in KEYED_PROVIDERS:
        if not environ.get(provider.key_variable, "").strip():
            continue
        with suppress(ValidationError):  # invalid URL: offer nothing, not the default URL
            yield ModelSettings(
                name=provider.name,
                kind=provider.kind,
                model=provider.model,
                base_url=environ.get(provider.address) or None,
                key_env=provider.key_variable,
            )


async def _probe_server(server: LocalModelServer) -> list[str]:
    """List a local server's models; empty if it is absent, slow or another program."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
            body = await _http_get("127.0.0.1", server.port, server.path)
        check_json_size(body)
        names = list(server.models(json.loads(body)))
    except (
        OSError,
        TimeoutError,
        ValueError,
        RecursionError,
        LookupError,
        TypeError,
        AttributeError,
    ):
        return []
    return [name for name in names if isinstance(name, str) and 0 < len(name) <= 200]


async def _http_get(host: str, port: int, path: str) -> bytes:
    """Return the body of a response; HTTP/1.0, so that it ends with the connection."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
        answer = b""
        while len(answer) < MAX_PROBE_BYTES and (chunk := await reader.read(64 * KIB)):
            answer += chunk
    finally:
        writer.close()
    return answer.partition(b"\r\n\r\n")[2]


class _NameAllocator:
    """Allocates unique names for agents."""

    def __init__(self, taken: Container[str]) -> None:
        self._taken = taken
        self._given: set[str] = set()

    def allocate(self, model: str) -> str:
        """Derive an agent name from a model name, without folder, owner, size and suffix."""
        base = re.split(r"[/\\]", model)[-1].lower().removesuffix(".gguf").split(":")[0]
        base = re.sub(r"[^a-z0-9_-]+", "-", base).strip("-_")
        base = base[:28].rstrip("-_") if base[:1].isalpha() else f"model-{base}"[:28].rstrip("-_")
        name, number = base, 2
        while name in self._given or name in self._taken:
            name, number = f"{base}-{number}", number + 1
        self._given.add(name)
        return name
