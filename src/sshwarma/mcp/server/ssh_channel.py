"""JSON-RPC messages over a channel of lines, as in MCP's stdio transport.

A message is one line of JSON. An invalid line gets an error response and has no other effect. After
the end of input, pending requests are still answered before the channel closes.
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

from sshwarma.common.json_guard import JsonTooLarge, check_json_size
from sshwarma.common.limits import MAX_CLIENT_MESSAGE_BYTES, MAX_UNSENT_ANSWER_BYTES
from sshwarma.mcp.line_stream import LineStream
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world.errors import Unavailable

RESPONSE_DRAIN_TIMEOUT_SECONDS: Final = 60.0
"""Seconds to wait for responses after the end of input."""

RATE_RETRY_SECONDS: Final = 0.1
"""Seconds between rate-limit checks; meanwhile the channel is not read."""

LISTEN_METHOD: Final = "subscriptions/listen"
"""A request that is answered only when its stream ends, so the drain does not wait for it."""


class MessageStream:
    """Messages of one channel; implements the SDK's `ReadStream` and `WriteStream`."""

    def __init__(self, lines: LineStream, agent_id: str, request_rate: LineRateLimiter) -> None:
        self._lines = lines
        self._agent_id = agent_id
        self._request_rate = request_rate
        self._open_requests: dict[RequestId, None] = {}
        self._unsent_bytes = 0
        self._sent = asyncio.Event()  # an answer has left, or the stream is closed
        self._is_broken = False
        self._is_closed = False

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message.

        Raises:
            anyio.EndOfStream: at the end of input.
        """
        while True:
            await self._wait_for_reader()
            line = await self._next_line()
            if line is None:
                await self._drain()
                raise anyio.EndOfStream
            if not line.strip():
                continue
            try:
                check_json_size(line)
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except JsonTooLarge as error:
                await self._send_error(INVALID_REQUEST, f"The message {error}.")
                continue
            except ValidationError:
                await self._send_error(PARSE_ERROR, "Not a JSON-RPC message.")
                continue
            if isinstance(message, JSONRPCRequest):
                if message.method != LISTEN_METHOD:
                    self._open_requests[message.id] = None
                await self._wait_for_rate()
            return SessionMessage(message)

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message; wait while the peer's buffer is full.

        Raises:
            anyio.BrokenResourceError: if the peer has disconnected.
        """
        await self._write(item.message.model_dump_json(by_alias=True, exclude_unset=True))
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self._open_requests.pop(item.message.id, None)
            self._sent.set()

    async def aclose(self) -> None:
        """Close both directions; the channel itself belongs to its owner."""
        self._is_closed = True
        self._sent.set()

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
        if self._is_broken:
            return None
        try:
            return await self._lines.read_line(MAX_CLIENT_MESSAGE_BYTES)
        except ValueError:
            self._is_broken = True
            text = f"A message must be at most {MAX_CLIENT_MESSAGE_BYTES} bytes."
            await self._send_error(INVALID_REQUEST, text)
            return None

    async def _wait_for_reader(self) -> None:
        """Wait while the peer leaves too much unread: no further request adds to it."""
        while self._unsent_bytes > MAX_UNSENT_ANSWER_BYTES and not self._is_closed:
            self._sent.clear()
            await self._sent.wait()

    async def _wait_for_rate(self) -> None:
        while True:
            try:
                self._request_rate.check(self._agent_id)
            except Unavailable:
                await asyncio.sleep(RATE_RETRY_SECONDS)
            else:
                return

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(RESPONSE_DRAIN_TIMEOUT_SECONDS):
                while self._open_requests and not self._is_closed:
                    self._sent.clear()
                    await self._sent.wait()
        except TimeoutError:
            self._open_requests.clear()

    async def _send_error(self, code: int, text: str) -> None:
        """Send an error that answers no request; JSON-RPC requires the id to be null."""
        error = {"code": code, "message": text}
        await self._write(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}))

    async def _write(self, text: str) -> None:
        data = text.encode() + b"\n"
        self._unsent_bytes += len(data)
        try:
            await self._lines.write(data)
        except ConnectionError as error:
            await self.aclose()
            raise anyio.BrokenResourceError from error
        finally:
            self._unsent_bytes -= len(data)
            self._sent.set()
