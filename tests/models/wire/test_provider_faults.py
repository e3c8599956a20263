"""Servers with faults: silent, empty, endless, cut without a word, half JSON."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from sshwarma.models.backend import (
    AnswerCut,
    CompletedCall,
    Message,
    ReasoningDelta,
    ToolCall,
    TurnStep,
)
from sshwarma.world.usage import TokenUsage
from support.provider_wires import WIRES, Ask, Wire

from .test_providers import calls, heard, question, text

BY_NAME = {wire.name: wire for wire in WIRES}
CHAT, ANTHROPIC, RESPONSES = BY_NAME["chat"], BY_NAME["anthropic"], BY_NAME["responses"]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END: Any = "end"
HANG: Any = "hang"


def chat(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chunk of a chat completion."""
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def calling(name: str, arguments: str, ident: str | None = "call_a") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return chat(tool_calls=[{"index": 0, "id": ident, "type": "function", "function": function}])


def anthropic(*deltas: dict[str, Any], block: dict[str, Any]) -> list[dict[str, Any]]:
    """A message of Anthropic with one block, without its end."""
    usage = {"input_tokens": 5, "output_tokens": 5}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
    return [
        {"type": "message_start", "message": message | {"usage": usage, "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
    ]


def anthropic_end(why: str) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": why, "stop_sequence": None},
            "usage": {"output_tokens": 7},
        },
        {"type": "message_stop"},
    ]


class Server:
    """Answers every request with the same events, and counts them.

    `END` closes the answer as HTTP wants it, `HANG` keeps it open; at the end of the events without
    either it is cut.
    """

    def __init__(self) -> None:
        self.script: list[Any] = []
        self.bodies: list[dict[str, Any]] = []
        self.url = ""
        self.endless: Callable[[int], dict[str, Any]] | None = None
        self.was_closed = asyncio.Event()  # the client closed an endless answer

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(
                line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if line
            )
            self.bodies.append(json.loads(await reader.readexactly(int(fields["content-length"]))))
            writer.write(HEAD)
            for event in self.script:
                if event is END:
                    writer.write(b"0\r\n\r\n")
                elif event is HANG:
                    await writer.drain()
                    await reader.read()
                else:
                    name = event.get("type", "") if isinstance(event, dict) else ""
                    data = event if isinstance(event, str) else json.dumps(event)
                    line = f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n"
                    writer.write(b"%x\r\n%s\r\n" % (len(line), line.encode()))
            for number in itertools.count() if self.endless else ():
                line = f"data: {json.dumps(self.endless(number))}\n\n"
                writer.write(b"%x\r\n%s\r\n" % (len(line), line.encode()))
                await writer.drain()
            await writer.drain()
        except ConnectionError:
            self.was_closed.set()
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    made.url = f"http://{host}:{port}"
    yield made
    listening.close()


async def test_missing_first_token_times_out(server: Server, wire: Wire, backend: Ask) -> None:
    server.script = [HANG]
    qwen = backend(wire, server.url, first_token_seconds=1)
    await qwen.ready()
    parts, failed = await heard(qwen, question("hello"))
    assert parts == []
    assert str(failed) == f"{wire.model} sent nothing for 1 s before its first token"
    assert len(server.bodies) == 1


async def test_stalled_stream_times_out(server: Server, backend: Ask) -> None:
    server.script = [chat(content="I think"), HANG]
    parts, failed = await heard(backend(CHAT, server.url, stall_seconds=0.1), question("hello"))
    assert text(parts) == "I think"
    assert "0.1 s in the middle of its answer" in str(failed)


async def test_slow_consumer_is_not_a_stall(server: Server, backend: Ask) -> None:
    server.script = [chat(content="one"), chat(content=" two"), chat("stop"), "[DONE]", END]
    heard_: list[Any] = []
    async for part in backend(CHAT, server.url, stall_seconds=0.5).stream(question("hello")):
        heard_.append(part)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.6)
    assert text(heard_) == "one two"


@pytest.mark.parametrize(
    "script",
    [
        [END],
        ["[DONE]", END],
        [chat("stop"), "[DONE]", END],
        [chat(role="assistant", content=""), chat("stop"), "[DONE]", END],
        [chat(content=" \n"), chat("stop"), "[DONE]", END],
    ],
)
async def test_empty_answer_is_retried_once(
    server: Server, backend: Ask, script: list[Any]
) -> None:
    server.script = script
    parts, failed = await heard(backend(CHAT, server.url), question("hello"))
    assert text(parts).strip() == ""
    assert "gave no answer" in str(failed)
    assert len(server.bodies) == 2


async def test_empty_anthropic_answer_is_retried_once(server: Server, backend: Ask) -> None:
    server.script = [
        *anthropic(block={"type": "text", "text": ""}),
        *anthropic_end("end_turn"),
        END,
    ]
    _, failed = await heard(backend(ANTHROPIC, server.url), question("hello"))
    assert "gave no answer" in str(failed)
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("why", "said"), [("length", "reached its token limit"), ("content_filter", "content filter")]
)
async def test_empty_answer_reports_its_finish_reason(
    server: Server, backend: Ask, why: str, said: str
) -> None:
    server.script = [chat(role="assistant", content=""), chat(why), "[DONE]", END]
    _, failed = await heard(backend(CHAT, server.url), question("hello"))
    assert said in str(failed)
    assert len(server.bodies) == 1


async def test_tool_name_repeated_in_each_chunk_is_one_name(server: Server, backend: Ask) -> None:
    server.script = [
        calling("look", '{"at"'),
        calling("look", ': "door"'),
        calling("look", "}"),
        chat("stop"),
        "[DONE]",
        END,
    ]
    parts, failed = await heard(backend(CHAT, server.url), question("hello"))
    assert failed is None
    assert calls(parts) == [ToolCall("call_a", "look", {"at": "door"})]


async def test_missing_usage_is_estimated(server: Server, backend: Ask) -> None:
    server.script = [chat(content="Good morning to you."), chat("stop"), "[DONE]", END]
    parts, _ = await heard(backend(CHAT, server.url), question("hello"))
    usage = parts[-1]
    assert isinstance(usage, TokenUsage)
    assert usage.estimated
    assert usage.cost is not None  # an estimate is priced too: budgets count it
    assert 20 < usage.prompt_tokens < 160  # with the JSON around each tool
    assert 3 < usage.completion_tokens < 12


@pytest.mark.parametrize("broken", ['{"at": ', "[1]", '"door"', "door", '{"at": "door"}}'])
@pytest.mark.parametrize("wire", [CHAT, ANTHROPIC], ids=str)
async def test_arguments_that_are_not_an_object_are_an_error(
    server: Server, wire: Wire, backend: Ask, broken: str
) -> None:
    if wire is CHAT:
        server.script = [calling("look", broken), chat("tool_calls"), "[DONE]", END]
    else:
        block = {"type": "tool_use", "id": "call_a", "name": "look", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": broken}
        server.script = [*anthropic(delta, block=block), *anthropic_end("tool_use"), END]
    parts, failed = await heard(backend(wire, server.url), question("hello"))
    assert failed is None
    (call,) = calls(parts)
    assert (call.id, call.name, call.arguments) == ("call_a", "look", {})
    assert "must be a JSON object" in call.parse_error


USE = {"type": "tool_use", "id": "call_a", "name": "look", "input": {}}
RESPONSE = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": []}
RESPONSE |= {"status": "in_progress", "parallel_tool_calls": True, "tool_choice": "auto"}
RESPONSE |= {"tools": []}
FUNCTION = {"type": "function_call", "id": "fc", "call_id": "call_a", "name": "look"}
UNFINISHED: dict[str, tuple[Wire, list[Any]]] = {
    "chat text": (CHAT, [chat(content="half of")]),
    "chat call": (CHAT, [calling("look", '{"at": "door"}')]),
    "anthropic text": (
        ANTHROPIC,
        anthropic({"type": "text_delta", "text": "half"}, block={"type": "text", "text": ""}),
    ),
    "anthropic call": (
        ANTHROPIC,
        anthropic({"type": "input_json_delta", "partial_json": '{"at": "door"}'}, block=USE),
    ),
    "responses call": (
        RESPONSES,
        [
            {
                "type": "response.created",
                "sequence_number": 0,
                "response": RESPONSE,
            },
            {
                "type": "response.output_item.added",
                "sequence_number": 1,
                "output_index": 0,
                "item": FUNCTION | {"arguments": ""},
            },
            {
                "type": "response.function_call_arguments.delta",
                "sequence_number": 2,
                "output_index": 0,
                "item_id": "fc",
                "delta": '{"at": "door"}',
            },
        ],
    ),
}


@pytest.mark.parametrize("polite", [True, False], ids=["closed", "cut"])
@pytest.mark.parametrize("case", UNFINISHED)
async def test_truncated_stream_fails_without_calls(
    server: Server, backend: Ask, case: str, polite: bool
) -> None:
    wire, events = UNFINISHED[case]
    server.script = [*events, END] if polite else events
    parts, failed = await heard(backend(wire, server.url), question("hello"))
    assert failed is not None
    assert calls(parts) == []
    assert not any(isinstance(part, TokenUsage) for part in parts)


async def test_unreachable_provider_is_reported(backend: Ask, wire: Wire) -> None:
    listening = await asyncio.start_server(Server(), "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    listening.close()
    await listening.wait_closed()
    _, failed = await heard(backend(wire, f"http://{host}:{port}"), question("hello"))
    assert str(failed) == f"cannot reach http://{host}:{port}{wire.root}"


async def test_thinking_blocks_are_sent_back_with_their_step(server: Server, backend: Ask) -> None:
    from sshwarma.models.backend import CompletedCall, TurnStep

    qwen = backend(ANTHROPIC, server.url)
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    start = anthropic(
        {"type": "thinking_delta", "thinking": "the door, then"},
        {"type": "signature_delta", "signature": "c2lnbmVk"},
        block=thinking,
    )
    use = [
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": USE},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"at": "door"}'},
        },
        {"type": "content_block_stop", "index": 1},
    ]
    server.script = [*start, *use, *anthropic_end("tool_use")[1:], END]
    parts, failed = await heard(qwen, question("hello"))
    assert failed is None
    assert [part.delta for part in parts if isinstance(part, ReasoningDelta)] == ["the door, then"]
    (call,) = calls(parts)
    await heard(qwen, question("hello", TurnStep("", (CompletedCall(call, "red", False),))))
    assert "c2lnbmVk" in json.dumps(server.bodies[-1])


async def test_model_settings_are_sent_in_the_request(server: Server, backend: Ask) -> None:
    server.script = [END]
    local = Wire("compatible", "compatible", "tiny", "/v1", {})
    asked: list[tuple[Wire, str]] = [(CHAT, "max_completion_tokens"), (local, "max_tokens")]
    for wire, limit in asked:
        steady = replace(wire, model="gpt-4o")  # newer ones take no temperature
        qwen = backend(steady, server.url, max_output_tokens=77, temperature=0.5)
        await heard(qwen, question("hello"))
        body = server.bodies[-1]
        assert (body[limit], body["temperature"]) == (77, 0.5)
        assert body["tools"][0]["function"].get("strict") in (None, False)
    roles = [message["role"] for message in server.bodies[-1]["messages"]]
    assert roles == ["system", "user"]  # neighbours are one message where templates are picky


async def test_log_of_an_anthropic_request_ends_with_a_cache_mark(
    server: Server, backend: Ask
) -> None:
    server.script = [
        *anthropic({"type": "text_delta", "text": "hi"}, block={"type": "text", "text": ""}),
        *anthropic_end("end_turn"),
        END,
    ]
    request = replace(
        question("hello"),
        conversation=(
            Message("user", "<bob> one"), Message("assistant", "two", ends_log=True),
            Message("user", "[Here now: bob.]"), Message("user", "hello"),
        ),
    )  # fmt: skip
    assert (await heard(backend(ANTHROPIC, server.url), request))[1] is None
    marked = [
        (message["role"], block["text"])
        for message in server.bodies[0]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if "cache_control" in block
    ]
    assert ("assistant", "two") in marked


@pytest.mark.parametrize("wire", [CHAT, ANTHROPIC, BY_NAME["ollama"]])
async def test_no_tool_can_be_called_in_the_last_step(
    server: Server, backend: Ask, wire: Wire
) -> None:
    server.script = (
        [*anthropic({"type": "text_delta", "text": "hi"}, block={"type": "text", "text": ""}),
         *anthropic_end("end_turn"), END]
        if wire is ANTHROPIC
        else [chat(content="hi"), chat("stop"), "[DONE]", END]
    )  # fmt: skip
    call = CompletedCall(ToolCall("a", "look", {"at": "x"}), "a result", is_error=False)
    request = replace(question("hello", TurnStep("", (call,))), is_last=True)
    assert (await heard(backend(wire, server.url), request))[1] is None
    (body,) = server.bodies
    if wire is ANTHROPIC:
        assert body["tool_choice"]["type"] == "none"
    else:
        assert body.get("tool_choice") == "none" or not body.get("tools")
    assert "This is the last step" in json.dumps(body["messages"][-1])


@pytest.mark.parametrize(
    "cut", [chat(content="once upon"), calling("look", '{"at": "the l')], ids=["text", "call"]
)
async def test_answer_at_its_maximum_length_is_reported(
    server: Server, backend: Ask, cut: dict[str, Any]
) -> None:
    server.script = [cut, chat("length"), "[DONE]", END]
    parts, failed = await heard(backend(CHAT, server.url), question("hello"))
    assert failed is None
    assert AnswerCut() in parts
    assert not [part for part in parts if isinstance(part, ToolCall)], "it has half its arguments"
