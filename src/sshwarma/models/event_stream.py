"""Check of a provider's response: server-sent events, each with a JSON object.

The SDKs of the providers disagree on damaged events: one skips them, one fails in its own code. So
a hook of the HTTP client reads the events first, and passes on the bytes as they are.
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2

from sshwarma.common.json_guard import JsonTooLarge, load_json
from sshwarma.common.limits import MAX_EVENT_BYTES, MAX_STREAMED_CALLS
from sshwarma.common.messages import with_limit
from sshwarma.common.units import MIB
from sshwarma.models.stream_errors import StreamDamaged

_CALL_PLACES: Final = (("choices", "delta", "tool_calls"), ("candidates", "content", "parts"))
"""Where an event has a list of calls: of an API as OpenAI's, and of Google's. Others send one."""

_JSON_TYPES = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


async def check_events(response: httpx2.Response) -> None:
    """Hook of a provider's HTTP client: check a response's events as they are read.

    A refusal is left as it is, and so is a compressed body, which has no lines yet.
    """
    stream = response.stream
    is_checked = response.is_success and "content-encoding" not in response.headers
    if is_checked and isinstance(stream, httpx2.AsyncByteStream):
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        response.stream = _CheckedStream(stream, kind)


class _CheckedStream(httpx2.AsyncByteStream):
    """The bytes of a response, checked as events; the connection is closed as before."""

    def __init__(self, stream: httpx2.AsyncByteStream, content_type: str) -> None:
        self._stream = stream
        self._check = EventCheck(content_type)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            try:
                self._check.feed(chunk)
            except StreamDamaged:
                yield chunk[: self._check.sound_bytes]  # what came before the damage is shown
                raise
            yield chunk
        self._check.end()

    async def aclose(self) -> None:
        await self._stream.aclose()


class EventCheck:
    """Checks the bytes of server-sent events in the chunks in which they arrive.

    Attributes:
        sound_bytes: Bytes of the last chunk up to the end of its last event without damage.
    """

    def __init__(self, content_type: str = "") -> None:
        self.sound_bytes = 0
        self._content_type = content_type or "a body"
        self._line = bytearray()  # the start of a line whose end has not arrived
        self._data: list[bytes] = []  # values of the `data` fields of the event so far
        self._data_bytes = 0
        self._has_fields = False
        self._stray = b""  # the first line that is no field

    def feed(self, chunk: bytes) -> None:
        """Check the events that end in a chunk.

        Raises:
            StreamDamaged: if an event is not a JSON object, or is over MAX_EVENT_BYTES.
        """
        self.sound_bytes, position = 0, -len(self._line)
        has_end = b"\n" in chunk or b"\r" in chunk or self._line.endswith(b"\r")
        self._line += chunk
        if len(self._line) + self._data_bytes > MAX_EVENT_BYTES + len(chunk):
            raise StreamDamaged(
                with_limit("an event is too large", f"{MAX_EVENT_BYTES // MIB} MiB")
            )
        if not has_end:
            return
        lines = bytes(self._line).splitlines(keepends=True)
        # A carriage return at the end of a chunk may be the first half of a line end.
        self._line = bytearray(b"" if lines[-1].endswith(b"\n") else lines.pop())
        for line in lines:
            self._read_line(line.rstrip(b"\r\n"))
            position += len(line)
            if not self._data:
                self.sound_bytes = max(0, position)

    def end(self) -> None:
        """Check what is left at the end of the response.

        Raises:
            StreamDamaged: if it ended within an event, or if there were no events but other text.
        """
        for line in (bytes(self._line).rstrip(b"\r\n"), b""):
            self._read_line(line, is_end=True)
        if self._stray and not self._has_fields:
            raise StreamDamaged(f"it sent {self._content_type} instead of events")

    def _read_line(self, line: bytes, *, is_end: bool = False) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(value)
        elif not line and self._data:
            self._check_data(b"\n".join(self._data), is_end=is_end)
            self._data, self._data_bytes = [], 0
        elif name.lstrip().startswith(b"<"):
            raise StreamDamaged("it sent HTML instead of events")
        is_field = name in (b"", b"data", b"event", b"id", b"retry")
        self._has_fields = self._has_fields or bool(line and is_field)
        if not is_field and not self._stray:
            self._stray = line

    @staticmethod
    def _check_data(data: bytes, *, is_end: bool) -> None:
        if not data.strip() or data.startswith(b"[DONE]"):
            return
        try:
            value = load_json(data)
        except JsonTooLarge as error:
            raise StreamDamaged(f"an event {error}") from None
        except ValueError as error:
            if is_end:
                raise StreamDamaged("it ended in the middle of an event") from None
            raise StreamDamaged(f"an event is not valid JSON: {error}") from None
        except RecursionError:
            raise StreamDamaged("an event is nested too deeply") from None
        if not isinstance(value, dict):
            kind = _JSON_TYPES.get(type(value), "a number")
            raise StreamDamaged(f"an event is {kind}, not a JSON object")
        if _count_calls(value) > MAX_STREAMED_CALLS:  # before the SDK works on each
            raise StreamDamaged(with_limit("it has too many tool calls", MAX_STREAMED_CALLS))


def _count_calls(event: dict[str, Any]) -> int:
    """Count the tool calls, or parts of other kinds, that an event has."""
    count = 0
    for place, inner, name in _CALL_PLACES:
        answers = event.get(place)
        for answer in answers if isinstance(answers, list) else ():
            delta = answer.get(inner) if isinstance(answer, dict) else None
            calls = delta.get(name) if isinstance(delta, dict) else None
            count += len(calls) if isinstance(calls, list) else 0
    return count
