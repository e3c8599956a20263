"""Damaged streams: each ends the answer with one sentence; arrived text stays."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from pydantic_ai.messages import PartStartEvent, ToolCallPart

from sshwarma.common.limits import MAX_EVENT_BYTES, MAX_STREAMED_CALLS
from sshwarma.models.event_stream import EventCheck
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.models.stream_deltas import ArgumentCounter
from sshwarma.models.stream_errors import StreamDamaged
from support.provider_wires import WIRES, Ask, Wire

from .test_provider_faults import CHAT, anthropic, calling, chat
from .test_providers import calls, heard, question, text

GOOGLE: Final = Wire("google", "google", "gemini-3-flash", "", {})
HAS_GOOGLE: Final = bool(  # other packages have a module `google`, too
    importlib.util.find_spec("google") and importlib.util.find_spec("google.genai")
)
needs_google = pytest.mark.skipif(not HAS_GOOGLE, reason="google-genai is not installed")
EVERY_WIRE: Final = (*WIRES, pytest.param(GOOGLE, marks=needs_google))
RESPONSE: Final = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": []}
MORE: Final = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def beginning(wire: Wire) -> list[dict[str, Any]]:
    """Events of a wire that begin an answer: "Hello " has arrived after them."""
    if wire.name == "anthropic":
        return anthropic(
            {"type": "text_delta", "text": "Hello "}, block={"type": "text", "text": ""}
        )
    if wire.name == "google":
        return [{"candidates": [{"content": {"parts": [{"text": "Hello "}], "role": "model"}}]}]
    if wire.name != "responses":
        return [chat(content="Hello ")]
    message = {"id": "m1", "type": "message", "role": "assistant", "content": []}
    place = {"item_id": "m1", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": RESPONSE | MORE},
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        {"type": "response.output_text.delta", "delta": "Hello ", "logprobs": [], **place},
    ]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def encode(event: object) -> bytes:
    name = event.get("type") if isinstance(event, dict) else None
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


def ask(backend: Ask, wire: Wire, server: RawServer) -> PydanticAIBackend:
    return backend(wire, server.url, key_env="OPENAI_API_KEY")


@dataclass
class RawServer:
    """Answers every request with these bytes, then closes or resets the connection."""

    url: str = ""
    body: bytes = b""
    content_type: str = "text/event-stream"
    resets: bool = False

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line for line in head.split("\r\n") if line.startswith("content-length: "))
        await reader.readexactly(int(length.split(": ")[1]))
        size = "" if self.resets else f"Content-Length: {len(self.body)}\r\n"
        kind = f"Content-Type: {self.content_type}\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\n{kind}{size}Connection: close\r\n\r\n".encode())
        writer.write(self.body)
        await writer.drain()
        if self.resets:
            await asyncio.sleep(0.05)  # a reset discards what the client has not read
            connection = writer.get_extra_info("socket")
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        else:
            writer.close()


@pytest.fixture
async def raw() -> AsyncIterator[RawServer]:
    made = RawServer()
    listening = await asyncio.start_server(made, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    made.url = f"http://{host}:{port}"
    yield made
    listening.close()


DAMAGED = "the stream of its provider is damaged: "
LOST = "the connection to its provider was lost"
OVERLOADED = {"type": "overloaded_error", "message": "Overloaded", "code": 529}
OVERLOADED_GOOGLE = {"code": 529, "message": "Overloaded", "status": "UNAVAILABLE"}


def damaged(data: bytes, wire: Wire) -> bytes:
    """An event with this data, named so that the SDK of the wire does not skip it."""
    name = b"event: content_block_delta\n" if wire.name == "anthropic" else b""
    return name + b"data: " + data + b"\n\n"


def misshapen(wire: Wire) -> bytes:
    """An event whose fields have other types than those of the wire."""
    if wire.name == "responses":
        return encode({"type": "response.output_text.delta", "delta": 7})
    return damaged(b'{"choices": 5, "candidates": 5, "delta": 7}', wire)


def unknown(wire: Wire) -> bytes:
    event = {"x": 1} if wire.name == "google" else {"type": "gossip", "x": 1}
    return encode(event)


def error_event(wire: Wire) -> bytes:
    if wire.name == "google":
        return encode({"error": OVERLOADED_GOOGLE})
    return encode({"type": "error", "error": OVERLOADED})


Damage = Callable[[Wire], bytes]
DAMAGE: Final[dict[str, tuple[Damage, str]]] = {
    "array": (lambda wire: damaged(b"[1]", wire), f"{DAMAGED}an event is an array"),
    "string": (lambda wire: damaged(b'"x"', wire), f"{DAMAGED}an event is a string"),
    "number": (lambda wire: damaged(b"7", wire), f"{DAMAGED}an event is a number"),
    "null": (lambda wire: damaged(b"null", wire), f"{DAMAGED}an event is null"),
    "half an event": (
        lambda wire: damaged(b'{"choices": [{"del', wire),
        f"{DAMAGED}an event is not valid JSON: Unterminated string",
    ),
    "not UTF-8": (
        lambda wire: damaged(b'{"x": "\xff"}', wire),
        f"{DAMAGED}an event is not valid JSON: 'utf-8' codec",
    ),
    "cut": (lambda _: b'data: {"choices": [{"del', f"{DAMAGED}it ended in the middle of an event"),
    "other types": (misshapen, ""),
    "unknown event": (unknown, LOST),
    "error event": (error_event, "failed (529): Overloaded"),
    "page": (lambda _: b"<html>\n<p>Sign in</p></html>", f"{DAMAGED}it sent HTML"),
    "end": (lambda _: b"", LOST),
}


@pytest.mark.parametrize("wire", EVERY_WIRE, ids=str)
@pytest.mark.parametrize("case", DAMAGE)
async def test_damage_is_named_and_what_came_before_it_is_kept(
    raw: RawServer, backend: Ask, wire: Wire, case: str
) -> None:
    make, expected = DAMAGE[case]
    raw.body = b"".join(map(encode, beginning(wire))) + make(wire)
    parts, failed = await heard(ask(backend, wire, raw), question("hello"))
    assert expected in str(failed)
    assert text(parts) == "Hello "
    assert calls(parts) == []


@pytest.mark.parametrize("wire", EVERY_WIRE, ids=str)
async def test_reset_connection_is_named(raw: RawServer, backend: Ask, wire: Wire) -> None:
    raw.body, raw.resets = b"".join(map(encode, beginning(wire))), True
    parts, failed = await heard(ask(backend, wire, raw), question("hello"))
    assert (str(failed), text(parts)) == (LOST, "Hello ")


@pytest.mark.parametrize("wire", EVERY_WIRE, ids=str)
@pytest.mark.parametrize("case", [case for case in DAMAGE if case not in ("end", "unknown event")])
async def test_damage_at_the_start_is_named(
    raw: RawServer, backend: Ask, wire: Wire, case: str
) -> None:
    make, expected = DAMAGE[case]
    raw.body = make(wire)
    parts, failed = await heard(ask(backend, wire, raw), question("hello"))
    assert expected in str(failed)
    assert text(parts) == ""


MISTYPED: Final = {
    "content": chat(content=7),
    "reasoning": chat(reasoning_content=[1]),
    "name": calling(5, "{}"),  # type: ignore[arg-type]
    "arguments": calling("look", 5),  # type: ignore[arg-type]
    "usage": chat() | {"usage": {"prompt_tokens": "x", "completion_tokens": []}},
    "finish": chat(finish=5),  # type: ignore[arg-type]
}


@pytest.mark.filterwarnings("default")  # of pydantic, about the types
@pytest.mark.parametrize("case", MISTYPED)
async def test_field_of_another_type_is_no_error_of_the_program(
    raw: RawServer, backend: Ask, case: str
) -> None:
    raw.body = b"".join(map(encode, (*beginning(CHAT), MISTYPED[case], chat(finish="stop"))))
    parts, failed = await heard(backend(CHAT, raw.url), question("hello"))
    assert text(parts) == "Hello "
    assert failed is None or DAMAGED in str(failed)


BODIES: Final = {
    "page": ("text/html", b"<html>Sign in</html>", f"{DAMAGED}it sent HTML instead of events"),
    "JSON": (
        "application/json",
        b'{"error": {"message": "no"}}',
        f"{DAMAGED}it sent application/json instead of events",
    ),
    "text": ("text/plain", b"ok", f"{DAMAGED}it sent text/plain instead of events"),
    "nothing": ("text/event-stream", b"", "gave no answer"),
}


@pytest.mark.parametrize("wire", EVERY_WIRE, ids=str)
@pytest.mark.parametrize("case", BODIES)
async def test_body_without_events_is_named(
    raw: RawServer, backend: Ask, wire: Wire, case: str
) -> None:
    raw.content_type, raw.body, expected = BODIES[case]
    parts, failed = await heard(ask(backend, wire, raw), question("hello"))
    assert str(failed).endswith(expected)
    assert text(parts) == ""


@pytest.mark.parametrize("size", range(1, 9))
def test_sound_events_pass_in_chunks_of_any_size(size: int) -> None:
    body = b': hello\r\n\r\ndata: {"a":\r\ndata: 1}\r\r\nid: 3\ndata:{}\n\ndata: [DONE]\n'
    check = EventCheck()
    for start in range(0, len(body), size):
        check.feed(body[start : start + size])
    check.end()


@pytest.mark.parametrize("line", [b"x" * 65_536, b"data:" + b"y" * 65_530 + b"\n"])
def test_event_that_never_ends_is_given_up(line: bytes) -> None:
    check = EventCheck()
    sent = 0
    with pytest.raises(StreamDamaged, match=r"an event is too large \(limit 8 MiB\)"):
        while sent < 4 * MAX_EVENT_BYTES:
            check.feed(line)
            sent += len(line)
    assert MAX_EVENT_BYTES <= sent <= 2 * MAX_EVENT_BYTES


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b'{"x": [' + b"[]," * 300_000 + b"1]}", r"an event has too many values"),
        (b'{"x": [' + b"9" * 4_000 + b"]}", r"an event has a number with too many digits"),
        (b'{"choices": [{"delta": {"tool_calls": [' + b"{}," * 899 + b"{}]}}]}", "64"),
        (b'{"candidates": [{"content": {"parts": [' + b"{}," * 899 + b"{}]}}]}", "64"),
    ],
)
def test_event_that_takes_long_to_read_is_given_up(event: bytes, reason: str) -> None:
    with pytest.raises(StreamDamaged, match=reason):
        EventCheck().feed(b"data: " + event + b"\n\n")


def test_event_whose_lists_have_another_form_is_left_to_the_sdk() -> None:
    for event in (b'{"choices": 1}', b'{"choices": [1, {"delta": 2}]}', b'{"candidates": [null]}'):
        EventCheck().feed(b"data: " + event + b"\n\n")


def test_long_event_in_small_chunks_is_read() -> None:
    check = EventCheck()
    check.feed(b'data: {"a": "')
    for _ in range(400):
        check.feed(b"x" * 16_384)
    check.feed(b'"}\n\n')
    assert check.sound_bytes == 4
    check.end()


@pytest.mark.parametrize("size", range(1, 9))
def test_bytes_before_the_damage_are_counted(size: int) -> None:
    sound, check = b'data: {"a": 1}\n\n', EventCheck()
    body = sound + b"data: [1]\n\n"
    passed = b""
    with pytest.raises(StreamDamaged, match="an event is an array"):
        for start in range(0, len(body), size):
            chunk = body[start : start + size]
            try:
                check.feed(chunk)
            except StreamDamaged:
                passed += chunk[: check.sound_bytes]
                raise
            passed += chunk
    assert passed.startswith(sound)
    assert not passed.endswith(b"\n\n") or passed == sound


def test_flood_of_calls_is_given_up() -> None:
    counter = ArgumentCounter(100_000)
    call = PartStartEvent(index=0, part=ToolCallPart(tool_name="look", args="{}"))
    for _ in range(MAX_STREAMED_CALLS):
        assert not counter.exceeds_limit(call)
    with pytest.raises(StreamDamaged, match=r"too many tool calls \(limit 64\)"):
        counter.exceeds_limit(call)
