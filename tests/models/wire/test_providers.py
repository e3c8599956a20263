"""The same behaviour over every wire, against a mock of the providers by others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sshwarma.models.backend import (
    BackendError,
    CompletedCall,
    Message,
    OfferedTool,
    RequestSent,
    RetryDelay,
    StepRequest,
    StreamPart,
    TextDelta,
    ToolCall,
    TurnStep,
)
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.world.usage import TokenUsage
from support.driver.aimock import Mock
from support.provider_wires import KEYS, Ask, Wire


def offer(name: str, argument: str) -> OfferedTool:
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string"}},
        "required": [argument],
    }
    return OfferedTool(name, f"world:{name}", f"To {name}.", schema)


OFFERS = (offer("look", "at"), offer("say", "text"))


def question(words: str, *steps: TurnStep) -> StepRequest:
    said = (Message("user", "bob: good morning"), Message("user", f"alice: {words}"))
    return StepRequest("lobby", "alice", words, OFFERS, steps, "You are qwen.", said)


async def heard(
    backend: PydanticAIBackend, request: StepRequest
) -> tuple[list[StreamPart], BackendError | None]:
    """All that came but the request itself, and how it failed if it did."""
    parts: list[StreamPart] = []
    try:
        async with asyncio.timeout(30):
            async for part in backend.stream(request):
                if not isinstance(part, RequestSent):
                    parts.append(part)
    except BackendError as failed:
        return parts, failed
    return parts, None


def text(parts: list[StreamPart]) -> str:
    return "".join(part.delta for part in parts if isinstance(part, TextDelta))


def calls(parts: list[StreamPart]) -> list[ToolCall]:
    return [part for part in parts if isinstance(part, ToolCall)]


async def test_answer_streams_in_pieces_and_ends_with_usage(
    mock: Mock, wire: Wire, backend: Ask
) -> None:
    parts, failed = await heard(backend(wire, mock.url), question(f"hello {wire}"))
    assert failed is None
    assert text(parts) == "Hello from the mock."
    assert len(parts) > 3
    usage = parts[-1]
    assert isinstance(usage, TokenUsage)
    assert (usage.prompt_tokens, usage.completion_tokens) == (1000, 100)
    assert not usage.estimated
    assert (usage.cost is None) == (wire.name == "ollama")


async def test_two_calls_and_their_results_make_a_second_step(
    mock: Mock, wire: Wire, backend: Ask
) -> None:
    qwen = backend(wire, mock.url)
    words = f"look and say {wire}"
    parts, failed = await heard(qwen, question(words))
    assert failed is None
    assert text(parts) == "Let me look."
    wanted = [ToolCall("call_a", "look", {"at": "door"}), ToolCall("call_b", "say", {"text": "hi"})]
    assert calls(parts) == wanted
    results = (
        CompletedCall(wanted[0], "a red door\n[Request of bob]", False),
        CompletedCall(wanted[1], "nobody hears", True),
    )
    for asked in (qwen, backend(wire, mock.url)):  # one remembers the answer, one does not
        parts, failed = await heard(asked, question(words, TurnStep("Let me look.", results)))
        assert failed is None
        assert (text(parts), calls(parts)) == ("I did.", [])
        sent = str(mock.asked(words)[-1]["body"])
        for given in ("call_a", "call_b", "a red door", "nobody hears", "Let me look."):
            assert given in sent
        assert sent.index("a red door") < sent.index("nobody hears")
        assert r"a red door\n  [Request of bob]" in sent, "a result has no headings"


async def test_rate_limited_request_is_retried(mock: Mock, wire: Wire, backend: Ask) -> None:
    parts, failed = await heard(backend(wire, mock.url), question(f"try again {wire}"))
    assert (text(parts), failed) == ("There.", None)


@pytest.mark.parametrize(
    ("words", "times", "said"),
    [
        ("never", 3, "is rate limiting"),
        ("later", 1, "try again in 600 s"),
        ("trouble", 3, "failed (500): the mock is on fire"),
        ("no such", 1, "does not know"),
    ],
)
async def test_failed_request_is_retried_only_where_it_helps(
    mock: Mock, wire: Wire, backend: Ask, words: str, times: int, said: str
) -> None:
    parts, failed = await heard(backend(wire, mock.url), question(f"{words} {wire}"))
    assert [type(part) for part in parts] == [RetryDelay] * (times - 1)
    assert said in str(failed)
    assert len(mock.asked(f"{words} {wire}")) == times


async def test_preview_is_the_very_request(mock: Mock, wire: Wire, backend: Ask) -> None:
    """A previewed request is sent byte for byte later; previewing sends nothing."""
    qwen, asked = backend(wire, mock.url), question(f"hello {wire}, for a preview")
    preview = await qwen.preview(asked)
    assert json.loads(preview)["model"] == wire.model
    assert "To look." in preview.decode()
    assert mock.asked(f"hello {wire}, for a preview") == []
    sent = [part async for part in qwen.stream(asked) if isinstance(part, RequestSent)]
    assert [part.body for part in sent] == [preview]


async def test_request_that_failed_is_recorded(mock: Mock, wire: Wire, backend: Ask) -> None:
    stream = backend(wire, mock.url).stream(question(f"no such {wire}"))
    first = await anext(stream)
    assert isinstance(first, RequestSent)
    assert f"no such {wire}" in first.body.decode()
    with pytest.raises(BackendError):
        await anext(stream)


async def test_context_too_long_is_recognized(mock: Mock, wire: Wire, backend: Ask) -> None:
    _, failed = await heard(backend(wire, mock.url), question(f"much too long {wire}"))
    assert failed is not None
    assert failed.is_context_too_long
    assert "exceeds the context window" in str(failed)


async def test_wrong_key_error_names_its_source_and_hides_it(
    mock: Mock, wire: Wire, backend: Ask, capfd: pytest.CaptureFixture[str]
) -> None:
    qwen = backend(wire, mock.url)
    _, failed = await heard(qwen, question(f"locked {wire}"))
    assert failed is not None
    place = {"ollama": "key_env", "anthropic": "ANTHROPIC_API_KEY"}.get(wire.name, "OPENAI_API_KEY")
    assert place in str(failed)
    assert failed.__cause__ is None
    assert failed.__context__ is None
    shown = f"{failed!r} {qwen!r} {await qwen.ready()!r} {capfd.readouterr()}"
    assert not any(key[:12] in shown for key in KEYS.values())


async def test_interrupted_text_is_passed_on_and_then_fails(
    mock: Mock, wire: Wire, backend: Ask
) -> None:
    parts, failed = await heard(backend(wire, mock.url), question(f"cut text {wire}"))
    assert "a text that is long enough to be cut midway".startswith(text(parts))
    assert text(parts)
    assert str(failed) == "the connection to its provider was lost"
    assert len(mock.asked(f"cut text {wire}")) == 1


async def test_interrupted_tool_call_is_not_passed_on(mock: Mock, wire: Wire, backend: Ask) -> None:
    parts, failed = await heard(backend(wire, mock.url), question(f"cut call {wire}"))
    assert calls(parts) == []
    assert failed is not None


async def test_invalid_json_arguments_are_an_error(mock: Mock, wire: Wire, backend: Ask) -> None:
    if wire.name == "anthropic":
        return  # the mock mends them on this wire; test_provider_faults has it
    parts, failed = await heard(backend(wire, mock.url), question(f"broken {wire}"))
    assert failed is None
    broken, whole = calls(parts)
    assert (broken.id, broken.name, broken.arguments) == ("call_a", "look", {})
    assert "must be a JSON object" in broken.parse_error
    assert whole == ToolCall("call_b", "say", {"text": "hi"})


class Between:
    """Passes bytes on to the mock, and knows when the asker has hung up."""

    def __init__(self, url: str) -> None:
        self.target = url.removeprefix("http://").split(":")
        self.closed = asyncio.Event()
        self.passes = asyncio.Event()  # clear: the rest of the answer is held back
        self.passes.set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(self.target[0], int(self.target[1]))
        back = asyncio.create_task(self.copy(up_reader, writer))
        try:
            await self.copy(reader, up_writer)
        finally:
            self.closed.set()
            back.cancel()
            up_writer.close()
            writer.close()

    async def copy(self, reader: Any, writer: Any) -> None:
        try:
            while data := await reader.read(65536):
                await self.passes.wait()
                writer.write(data)
        except ConnectionError:
            return


@pytest.fixture
async def between(mock: Mock) -> AsyncIterator[tuple[Between, str]]:
    handler = Between(mock.url)
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield handler, f"http://{host}:{port}"
    server.close()


@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_closing_the_stream_disconnects_at_once(
    between: tuple[Between, str], wire: Wire, backend: Ask, how: str
) -> None:
    """It does not wait for the rest of the answer: nothing more arrives."""
    relay, url = between
    speaking = asyncio.Event()
    stream: Any = backend(wire, url).stream(question(f"slow {wire}"))

    async def listen() -> None:
        async for _ in stream:
            speaking.set()
            if how == "closed":
                return

    task = asyncio.create_task(listen())
    await asyncio.wait_for(speaking.wait(), 30)
    relay.passes.clear()
    if how == "cancelled":
        task.cancel()
    async with asyncio.timeout(30):
        await asyncio.wait({task})
        await stream.aclose()
        await relay.closed.wait()
