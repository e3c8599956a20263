"""JSON-RPC messages over a channel of lines, as MCP has it over standard input and output.

A message is one line of JSON. What is no message is answered by an error and costs nothing else.
When the other side has said all, what it asked is still answered before the channel ends.
"""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Final, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from sshwarma.mcp.client.line_stream import Lines
from sshwarma.mcp.server.server import LINE_BYTES
from sshwarma.verbs.dispatch import Pace
from sshwarma.world.errors import Unavailable

DRAIN_SECONDS: Final = 60.0
"""After the end of what is read, answers are waited for this long."""

PACE_SECONDS: Final = 0.1
"""Who asks too fast is read again after this time: the channel holds it back meanwhile."""

OPEN: Final = "subscriptions/listen"
"""A request whose answer is that the stream has ended: nobody waits for that."""


class Messages:
    """Both ways of one channel: the SDK's `ReadStream` and `WriteStream`."""

    def __init__(self, lines: Lines, agent_id: str, pace: Pace) -> None:
        self._lines = lines
        self._agent_id = agent_id
        self._pace = pace
        self._asked: dict[RequestId, None] = {}
        self._answered = asyncio.Event()
        self._broken = False
        self._over = False

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            anyio.EndOfStream: when no more will come.
        """
        while True:
            line = await self._next_line()
            if line is None:
                await self._drain()
                raise anyio.EndOfStream
            if not line.strip():
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                await self._complain(PARSE_ERROR, "That is no JSON-RPC message.")
                continue
            if isinstance(message, JSONRPCRequest):
                if message.method != OPEN:
                    self._asked[message.id] = None
                await self._slow_down()
            return SessionMessage(message)

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message; waits while the other side has no room.

        Raises:
            anyio.BrokenResourceError: if the other side is gone.
        """
        await self._write(item.message.model_dump_json(by_alias=True, exclude_unset=True))
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self._asked.pop(item.message.id, None)
            self._answered.set()

    async def aclose(self) -> None:
        """The reader and the writer are one; the channel is whose it is."""
        self._over = True
        self._answered.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def _next_line(self) -> bytes | None:
        if self._broken:
            return None
        try:
            return await self._lines.read_line(LINE_BYTES)
        except ValueError:
            self._broken = True
            words = f"A message is at most {LINE_BYTES} bytes."
            await self._complain(INVALID_REQUEST, words)
            return None

    async def _slow_down(self) -> None:
        while True:
            try:
                self._pace.check(self._agent_id)
            except Unavailable:
                await asyncio.sleep(PACE_SECONDS)
            else:
                return

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._asked and not self._over:
                    self._answered.clear()
                    await self._answered.wait()
        except TimeoutError:
            self._asked.clear()

    async def _complain(self, code: int, words: str) -> None:
        """An error that answers no request: its id is null, and must be there."""
        error = {"code": code, "message": words}
        await self._write(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}))

    async def _write(self, text: str) -> None:
        try:
            await self._lines.write(text.encode() + b"\n")
        except ConnectionError as error:
            self._over = True
            self._answered.set()
            raise anyio.BrokenResourceError from error
