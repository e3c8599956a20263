"""One HTTP request of an MCP client: its body, and the answer of the SDK."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import Message, Receive, Send

from sshwarma.common.json_guard import check_json_size
from sshwarma.common.limits import MAX_CLIENT_MESSAGE_BYTES
from sshwarma.mcp.server.clients import McpConnection
from sshwarma.mcp.server.http_errors import send_sdk_error
from sshwarma.mcp.server.refusals import REFUSED_CODE, make_error, send_refusal
from sshwarma.mcp.server.session_table import SESSION_HEADER


class HttpExchange:
    """ASGI exchange of one request.

    When its connection ends, the SDK receives a disconnect and the client the end of the response.
    """

    def __init__(self, connection: McpConnection, receive: Receive, send: Send) -> None:
        self._connection = connection
        self._receive = receive
        self._send = send
        self.status = 0
        self.session_id: bytes | None = None  # of the session that the response names
        self._is_event_stream = False
        self._is_complete = False
        self._error_start: Message | None = None
        self._error_body = bytearray()
        self._body: deque[Message] = deque()

    async def read_body(self) -> bool:
        """Read the body, which `receive` returns again.

        Returns False if the client disconnects or the connection ends. Reading stops at the limit
        of a message: a longer body is the SDK's to refuse.
        """
        size = 0
        while size <= MAX_CLIENT_MESSAGE_BYTES:
            message = await self._receive_or_end()
            if message["type"] == "http.disconnect":
                return False
            self._body.append(message)
            size += len(message.get("body", b""))
            if not message.get("more_body", False):
                break
        return True

    def check_size(self) -> None:
        """Check the body before the SDK parses it.

        Raises:
            JsonTooLarge: if it has too many values.
        """
        parts = [message.get("body", b"") for message in self._body]
        if sum(map(len, parts)) <= MAX_CLIENT_MESSAGE_BYTES:  # a longer one is not parsed
            check_json_size(b"".join(parts))

    async def receive(self) -> Message:
        """Return the client's next message, or a disconnect when the connection ends."""
        return self._body.popleft() if self._body else await self._receive_or_end()

    async def _receive_or_end(self) -> Message:
        loop = asyncio.get_running_loop()
        end_task = loop.create_task(self._connection.ended.wait())
        receive_task = loop.create_task(self._receive_once())
        try:
            await asyncio.wait({receive_task, end_task}, return_when=asyncio.FIRST_COMPLETED)
            return receive_task.result() if receive_task.done() else {"type": "http.disconnect"}
        finally:
            end_task.cancel()
            receive_task.cancel()

    async def _receive_once(self) -> Message:
        return await self._receive()

    async def send(self, message: Message) -> None:
        """Send a message to the client, and record the status of the response.

        An error of the SDK is sent when it is complete, as a JSON-RPC error of one sentence.
        """
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = dict(message.get("headers", ()))
            self.session_id = headers.get(SESSION_HEADER)
            content_type = headers.get(b"content-type", b"")
            self._is_event_stream = content_type.startswith(b"text/event-stream")
            if self.status >= 400:
                self._error_start = message
                return
        elif message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
            if self._error_start is not None:
                self._error_body += message.get("body", b"")
                if self._is_complete:
                    await send_sdk_error(self._send, self._error_start, bytes(self._error_body))
                return
        await self._send(message)

    async def finish(self) -> None:
        """Complete a response that was cut short, with the reason as an error."""
        if self._is_complete or not self._connection.ended.is_set():
            return
        if self.status:
            await self._send({"type": "http.response.body", "body": self._last_event()})
        else:
            await send_refusal(self.send, 401, self._connection.reason)

    def _last_event(self) -> bytes:
        """Return the event that answers a stream's request with the reason of its end."""
        request_id = self._connection.request_id
        if request_id is None or not self._is_event_stream:
            return b""
        error = make_error(request_id, REFUSED_CODE, self._connection.reason)
        return b"event: message\r\ndata: " + error + b"\r\n\r\n"
