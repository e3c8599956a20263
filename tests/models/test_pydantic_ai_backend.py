"""Backends without a wire: what is sent, what comes back, keys, faults, what could be had here."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import pickle
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sshwarma.common.limits import MAX_RETRY_AFTER_SECONDS
from sshwarma.models import discover as discover_module
from sshwarma.models import providers, pydantic_ai_backend
from sshwarma.models.backend import (
    BackendError,
    CompletedCall,
    Message,
    OfferedTool,
    RetryDelay,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
    TurnStep,
)
from sshwarma.models.discover import LOCAL_SERVERS, discover_models
from sshwarma.models.errors import MAX_RETRY_JITTER, ModelFailure
from sshwarma.models.providers import LoadedModel, load_model
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend, collapse_repeated_name
from sshwarma.models.secrets import Secret, describe_key_location, read_key
from sshwarma.settings import ModelSettings, load_settings
from sshwarma.world.usage import TokenUsage

KEY = "sk-a-key-that-nobody-may-see-0123456789"
LOOK = OfferedTool("look", "world:look", "Look at it.", {"type": "object", "properties": {}})


def settings(**more: Any) -> ModelSettings:
    return ModelSettings(**{"name": "qwen", "kind": "openai", "model": "gpt-4o"} | more)


def request(*steps: TurnStep, said: tuple[Message, ...] = (), **more: Any) -> StepRequest:
    return StepRequest("lobby", "alice", "hello", (LOOK,), steps, conversation=said, **more)


class Played:
    """A backend with pydantic-ai's own double behind it, which plays a script."""

    def __init__(self) -> None:
        self.script: Callable[..., AsyncIterator[Any]] = nothing
        self.asked: list[Any] = []
        self.waits: list[float] = []
        self.backend = PydanticAIBackend(settings(), {})

    async def answers(self, asked: StepRequest) -> list[StreamPart]:
        async with asyncio.timeout(30):
            return [part async for part in self.backend.stream(asked)]


async def nothing(messages: Any, info: Any) -> AsyncIterator[Any]:
    return
    yield


@pytest.fixture
async def played(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Played]:
    from pydantic_ai.models import create_async_httpx2_client
    from pydantic_ai.models.function import FunctionModel

    made = Played()
    http = create_async_httpx2_client()
    right_wait = ModelFailure.retry_delay

    def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        made.asked.append(messages)
        return made.script(messages, info)

    def loaded(settings: ModelSettings, environ: Any) -> LoadedModel:
        model = FunctionModel(stream_function=script)
        return LoadedModel(model, {}, Secret(KEY), http, reports_finish_reason=False)

    def wait(fault: ModelFailure, tried: int) -> float:
        made.waits.append(right_wait(fault, tried))
        return 0

    monkeypatch.setattr(pydantic_ai_backend, "load_model", loaded)
    monkeypatch.setattr(ModelFailure, "retry_delay", wait)
    yield made
    await made.backend.close()


def tool_call(name: str, arguments: str, ident: str) -> dict[int, Any]:
    from pydantic_ai.models.function import DeltaToolCall

    return {0: DeltaToolCall(name=name, json_args=arguments, tool_call_id=ident)}


async def test_stream_yields_text_calls_and_usage(played: Played) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "Let me "
        yield "look."
        yield tool_call("look", '{"at": ', "a")
        yield tool_call("", '"door"}', "a")

    async def said(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "A door."

    played.script = script
    *texts, call, usage = await played.answers(request())
    assert texts == [TextDelta("Let me "), TextDelta("look.")]
    assert isinstance(call, ToolCall)
    assert call.arguments == {"at": "door"}
    assert isinstance(usage, TokenUsage)
    assert usage.cost is None


async def test_request_contains_instructions_history_and_steps(
    played: Played,
) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        assert [tool.name for tool in info.function_tools] == ["look"]
        assert info.function_tools[0].strict is False
        yield "done"

    said = (
        Message("assistant", "I was here first"),
        Message("user", "bob: hi"),
        Message("user", "  "),
        Message("user", "alice: look"),
    )
    done = (
        CompletedCall(ToolCall("id-1", "look", {"at": "door"}), "red", False),
        CompletedCall(ToolCall("id-2", "look", {}), "no such thing", True),
    )
    played.script = script
    await played.answers(request(TurnStep("Let me.", done), said=said, system="You are qwen."))
    (sent,) = played.asked
    assert [type(message).__name__ for message in sent] == [
        "ModelRequest",
        "ModelResponse",
        "ModelRequest",
        "ModelResponse",
        "ModelRequest",
    ]
    assert {m.instructions for m in sent if hasattr(m, "instructions")} == {"You are qwen."}
    assert [part.content for part in sent[2].parts] == ["bob: hi", "alice: look"]
    text, first, second = sent[3].parts
    assert text.content == "Let me."
    assert [(p.tool_call_id, p.args) for p in (first, second)] == [
        ("id-1", {"at": "door"}),
        ("id-2", {}),
    ]
    results = [(p.tool_call_id, p.content, p.outcome) for p in sent[4].parts]
    assert results == [("id-1", "red", "success"), ("id-2", "no such thing", "failed")]


async def test_request_without_context_uses_question_and_model_prompt(
    played: Played,
) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "done"

    played.script = script
    played.backend = PydanticAIBackend(settings(prompt="Be brief."), {})
    await played.answers(request())
    (message,) = played.asked[0]
    assert message.parts[0].content == "alice: hello"
    assert message.instructions == "Be brief."


async def test_next_turn_shares_the_prefix_of_the_last_request(played: Played) -> None:
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "done"

    played.script = script
    said = (Message("user", "alice: one"), Message("assistant", "two"))
    await played.answers(request(said=said))
    await played.answers(request(said=(*said, Message("user", "bob: three"))))
    first, second = ([_parts(m) for m in sent] for sent in played.asked)
    assert second[: len(first)] == first
    assert ModelMessagesTypeAdapter.dump_json(played.asked[0])


def _parts(message: Any) -> list[tuple[str, str]]:
    return [(part.part_kind, part.content) for part in message.parts]


async def test_empty_answer_is_retried_once(played: Played) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "" if len(played.asked) == 1 else "here"

    played.script = script
    parts = await played.answers(request())
    assert parts[:2] == [RetryDelay(0, "no answer"), TextDelta("here")]
    played.asked.clear()

    async def blank(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield " \n"

    played.script = blank
    with pytest.raises(BackendError, match="gave no answer"):
        await played.answers(request())
    assert len(played.asked) == 2


def refusal(status: int, **headers: str) -> Exception:
    from pydantic_ai import exceptions

    kinds: dict[int, Any] = {
        429: exceptions.ModelRateLimitError,
        500: exceptions.ModelServerError,
        400: exceptions.ModelRequestRejectedError,
    }
    return exceptions.ModelHTTPError.for_category(
        kinds[status],
        status_code=status,
        model_name="m",
        body={"error": {"message": f"the key {KEY} is\n{'very ' * 100}bad"}},
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


@pytest.mark.parametrize(
    ("error", "tries", "least", "most"),
    [
        (refusal(429), 3, 0.25, 1.5),
        (refusal(500), 3, 0.25, 1.5),
        (refusal(429, retry_after="7"), 3, 7, 7 * MAX_RETRY_JITTER),
        (refusal(429, retry_after_ms="2500"), 3, 2.5, 2.5 * MAX_RETRY_JITTER),
        (
            refusal(429, retry_after=f"{MAX_RETRY_AFTER_SECONDS:.0f}"),
            3,
            MAX_RETRY_AFTER_SECONDS,
            MAX_RETRY_AFTER_SECONDS,
        ),
        (refusal(429, retry_after=f"{MAX_RETRY_AFTER_SECONDS + 1:.0f}"), 1, 0, 0),
        (refusal(500, x_should_retry="false"), 1, 0, 0),
        (refusal(400), 1, 0, 0),
    ],
)
async def test_retry_delay_follows_the_server_or_backs_off(
    played: Played, error: Exception, tries: int, least: float, most: float
) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        raise error
        yield

    played.script = script
    with pytest.raises(BackendError) as raised:
        await played.answers(request())
    assert len(played.asked) == tries
    assert len(played.waits) == tries - 1
    assert all(least <= wait <= most for wait in played.waits)
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None


async def test_no_retry_after_text_was_streamed(played: Played) -> None:
    async def script(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield "I think"
        raise refusal(500)

    played.script = script
    parts: list[StreamPart] = []
    with pytest.raises(BackendError, match=r"failed \("):
        async for part in played.backend.stream(request()):
            parts.append(part)
    assert parts == [TextDelta("I think")]
    assert len(played.asked) == 1


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("look", "look"),
        ("looklook", "look"),
        ("looklooklook", "look"),
        ("looksay", "looksay"),
        ("loo", "loo"),
        ("", ""),
        ("gogo", "gogo"),
    ],
)
def test_collapse_repeated_name_collapses_whole_copies_only(name: str, meant: str) -> None:
    assert collapse_repeated_name(name, {"look", "say", "go", "gogo"}) == meant


# Keys.


def private(tmp_path: Path, text: str = f"{KEY}\n", mode: int = 0o600) -> Path:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_key_is_read_from_a_variable_or_a_private_file(tmp_path: Path) -> None:
    assert read_key(settings(), {"OPENAI_API_KEY": KEY}).reveal() == KEY
    assert read_key(settings(key_env="MINE"), {"MINE": f" {KEY}\n"}).reveal() == KEY
    assert read_key(settings(key_file=private(tmp_path)), {}).reveal() == KEY


@pytest.mark.parametrize("kind", ["ollama", "llamacpp", "compatible"])
def test_local_server_gets_no_key_by_default(kind: str) -> None:
    local = settings(kind=kind, base_url="http://127.0.0.1:1/v1")
    assert read_key(local, {"OPENAI_API_KEY": KEY}).reveal() == ""


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_key_file_readable_by_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = private(tmp_path, mode=mode)
    with pytest.raises(BackendError, match=f"chmod 600 {path}") as raised:
        read_key(settings(key_file=path), {})
    assert KEY not in repr(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no key in the environment variable OPENAI_API_KEY"),
        ({"key_env": "MINE"}, "no key in the environment variable MINE"),
        ({"key_file": "/nowhere/key"}, "cannot read the file /nowhere/key: No such file"),
        ({"key_file": "/"}, "it is not a file"),
    ],
)
def test_missing_key_names_where_it_was_expected(given: Any, said: str) -> None:
    with pytest.raises(BackendError, match=said):
        read_key(settings(**given), {})


def test_pipe_as_key_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(BackendError, match="not a file"):
        read_key(settings(key_file=tmp_path / "pipe"), {})


@pytest.mark.parametrize("text", [f"export A={KEY} B", f"{KEY}\n{KEY}", f"{KEY}é", f"{KEY}\0"])
def test_invalid_key_is_refused_without_printing_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(BackendError, match="does not hold a key") as raised:
        read_key(settings(key_file=private(tmp_path, text)), {})
    assert KEY not in repr(raised.value)


def test_secret_is_never_printed_copied_or_pickled() -> None:
    key = Secret(KEY)
    shown = [repr(key), str(key), f"{key}", f"{key!r:>50}", f"{[key]}", repr({"k": key})]
    assert not any(KEY in text for text in shown)
    assert key.hide(f"a {KEY} b") == "a ••• b"
    for store in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            store(key)


@pytest.mark.process
async def test_key_is_not_in_repr_or_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    free = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{free.sockets[0].getsockname()[1]}/v1"
    backend = PydanticAIBackend(settings(base_url=url), {"OPENAI_API_KEY": KEY})
    loaded = await backend.ready()
    assert loaded.key.reveal() == KEY
    with pytest.raises(BackendError) as raised:
        async for _ in backend.stream(request()):
            pass
    free.close()
    await backend.close()
    out, err = capfd.readouterr()
    shown = [repr(backend), repr(vars(backend)), repr(loaded), repr(loaded.model), out, err]
    shown += [repr(raised.value), repr(raised.value.__context__), caplog.text]
    assert not any(KEY in text for text in shown)
    assert describe_key_location(settings()) in "the environment variable OPENAI_API_KEY"


# Settings.


def test_models_are_read_from_settings_tables(tmp_path: Path) -> None:
    path = tmp_path / "sshwarma.toml"
    path.write_text(
        "[[models]]\nname = 'qwen'\nkind = 'ollama'\nmodel = 'qwen3:8b'\n"
        "[[models]]\nname = 'claude'\nkind = 'anthropic'\nmodel = 'claude-sonnet-5-5'\n"
        "key_file = '/etc/sshwarma/anthropic.key'\nmax_output_tokens = 4000\ntemperature = 0.3\n"
    )
    first, second = load_settings(path).models
    assert (first.name, first.kind, first.base_url) == ("qwen", "ollama", None)
    assert second.key_file == Path("/etc/sshwarma/anthropic.key")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "compatible"}, "needs base_url"),
        ({"base_url": "127.0.0.1:8080"}, "must be a URL, such as"),
        ({"base_url": f"https://me:{KEY}@example.org/v1"}, "must not contain a key"),
        ({"key_env": KEY}, "this looks like the key itself"),
        ({"key_env": "A-B"}, "must be the name of an environment variable, such as OPENAI_API_KEY"),
        ({"key_env": "MINE", "key_file": "/k"}, "not both"),
        ({"name": "Qwen"}, "must be a lower-case letter, then"),
        ({"api_key": KEY}, "not permitted"),
    ],
)
def test_invalid_model_settings_do_not_print_a_key(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        settings(**wrong)
    told = " ".join(error["msg"] for error in raised.value.errors())
    assert said in told
    assert KEY not in told
    assert KEY not in str(raised.value)


def test_misplaced_key_in_settings_is_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "sshwarma.toml"
    path.write_text(f"[[models]]\nname = 'a'\nkind = 'openai'\nmodel = 'b'\nkey = '{KEY}'\n")
    with pytest.raises(ValidationError) as raised:
        load_settings(path)
    assert KEY not in str(raised.value)


def test_model_names_must_be_unique(tmp_path: Path) -> None:
    path = tmp_path / "sshwarma.toml"
    path.write_text("[[models]]\nname = 'qwen'\nkind = 'ollama'\nmodel = 'a'\n" * 2)
    with pytest.raises(ValidationError, match="same name"):
        load_settings(path)


# Loading.


@pytest.mark.process
def test_model_libraries_load_at_the_first_request() -> None:
    code = (
        "import sys, sshwarma.models.pydantic_ai_backend, sshwarma.models.discover\n"
        "late = {'pydantic_ai', 'openai', 'anthropic', 'httpx2', 'genai_prices'}\n"
        "assert not late & set(sys.modules), late & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


def test_missing_provider_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "_is_installed", lambda module: False)
    with pytest.raises(BackendError, match="pip install"):
        load_model(settings(kind="google", model="gemini-3.8-flash"), {"GEMINI_API_KEY": KEY})


async def test_concurrent_first_requests_load_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []

    def loaded(settings: ModelSettings, environ: Any) -> Any:
        times.append(1)
        time.sleep(0.02)  # in a thread: what importing does
        return object()

    monkeypatch.setattr(pydantic_ai_backend, "load_model", loaded)
    backend = PydanticAIBackend(settings(), {})
    first, second = await asyncio.gather(backend.ready(), backend.ready())
    assert first is second
    assert times == [1]


# What could be had here.


async def _listening(answer: bytes | None) -> tuple[asyncio.Server, int]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await reader.read()
        else:
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
    "answer", [None, b"", b"<html>", b"[]", b'{"models": 3}', b'{"data": [{"id": "x"}]}']
)
@pytest.mark.process
async def test_discover_ignores_other_services_quickly(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = 1.0
    monkeypatch.setattr(discover_module, "PROBE_TIMEOUT_SECONDS", probe)
    server, port = await _listening(answer)
    began = time.monotonic()
    found = await discover_models({}, tuple(replace(one, port=port) for one in LOCAL_SERVERS))
    took = time.monotonic() - began
    server.close()
    assert found == []
    assert took < probe * len(LOCAL_SERVERS)  # they are asked side by side


async def test_discover_ignores_an_invalid_base_url() -> None:
    assert await discover_models({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "nonsense"}, ()) == []


@pytest.mark.process
def test_model_libraries_load_in_concurrent_threads() -> None:
    """As when a server starts with models of two kinds and an owner asks for a price."""
    code = (
        "import sys, threading\n"
        "from sshwarma.models import prices, providers\n"
        "from sshwarma.settings import ModelSettings\n"
        "sys.setswitchinterval(1e-5)\n"
        "keys = {'OPENAI_API_KEY': 'a', 'ANTHROPIC_API_KEY': 'b'}\n"
        "def made(kind): return ModelSettings(name='a', kind=kind, model='m')\n"
        "kinds = ('openai', 'anthropic', 'ollama')\n"
        "work = [lambda k=k: providers.load_model(made(k), keys) for k in kinds]\n"
        "work += [lambda k=k: prices.is_price_known(made(k)) for k in kinds]\n"
        "failed = []\n"
        "threading.excepthook = failed.append\n"
        "threads = [threading.Thread(target=one) for one in work]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "assert not failed, failed\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)


async def test_estimate_usage_returns_nothing_before_the_first_request(played: Played) -> None:
    assert played.backend.estimate_usage(request(), "") is None
    await played.backend.ready()
    owed = played.backend.estimate_usage(request(), "I think that it is " * 10)
    assert owed is not None
    assert owed.estimated
    assert owed.prompt_tokens > 0
    assert owed.completion_tokens > 40
