"""The internals of uvicorn: the one file that may use them.

tests/web/test_uvicorn_shape.py holds the source this was written against.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode


async def serve_connection(
    server: uvicorn.Server, connected: socket.socket, client: tuple[str, int]
) -> None:
    """Serve a connected socket for a client at an address and port."""

    def make() -> asyncio.Protocol:
        make_protocol: Any = server.config.http_protocol_class
        protocol: HttpConnection = make_protocol(
            config=server.config, server_state=server.server_state, app_state={}
        )
        protocol.known_client = client
        return protocol

    await asyncio.get_running_loop().connect_accepted_socket(make, connected)


WRITE_CHUNK: Final = "write_chunk of sshwarma"
"""Key of `HttpConnection.write_chunk` among the extensions of an ASGI scope."""


WRITE_FRAME: Final = "write_frame of sshwarma"
"""Key of `SocketConnection.write_frame` among the extensions of the scope of a WebSocket."""

ABORT: Final = "abort of sshwarma"
"""Key of what drops the connection of a WebSocket, among the extensions of its scope."""


def encode_frame(text: str) -> bytes:
    """Return a text as the frame that a server sends, the same for all clients."""
    return Frame(Opcode.TEXT, text.encode()).serialize(mask=False)


def _extend(app: ASGIApp, key: str, value: object) -> ASGIApp:
    """Return an application that is given an extension in each scope."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("extensions", {})[key] = value
        await app(scope, receive, send)

    return run


_MALFORMED: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class SocketConnection(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with what it lacks against clients that misbehave.

    It can be dropped, as a close waits for a reader. It ends one whose head the parser of sockets
    refuses: uvicorn leaves it open without an answer, and fails at it when the server stops. It
    answers no pings of a client that reads no answers.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.app = _extend(self.app, ABORT, self.transport.abort)
        self.app = _extend(self.app, WRITE_FRAME, self.write_frame)

    def write_frame(self, frame: bytes) -> bool:
        """Write a frame at once, without the work of `send` of ASGI.

        Returns False if that cannot be now: the client must read first, or the socket is closed.
        """
        is_open = self.handshake_complete and not self.close_sent and not self.disconnected
        if not is_open or not self.writable.is_set() or self.transport.is_closing():
            return False
        self.transport.write(frame)
        return True

    @property
    def is_ending(self) -> bool:
        """Whether it waits for its client alone to close it."""
        return bool(self.close_sent)

    def drop(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated:  # the head comes at once, and whole
            self.handshake_complete = self.close_sent = True
            self.transport.write(_MALFORMED)
            self.transport.close()

    def handle_ping(self) -> None:
        answer = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(answer)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:  # uvicorn logs the traceback
                self.frames = []
                self.conn.send_close(1007)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()


class HttpConnection(H11Protocol):
    """uvicorn's HTTP connection, with public names for its state.

    Attributes:
        known_client: address and port of the client, where the socket has none.
    """

    known_client: tuple[str, int] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.client = self.known_client or self.client
        self.app = _extend(self.app, WRITE_CHUNK, self.write_chunk)
        self.on_connected()

    def write_chunk(self, data: bytes) -> bool:
        """Write a part of a streamed body at once, without the work of `send` of ASGI.

        `data` must not be empty, and the response must have begun, without a Content-Length.
        Returns False if it has to be sent: the client must read first or has gone, or it has an
        HTTP version without chunks.
        """
        is_chunked = self.scope["http_version"] == "1.1" and self.scope["method"] != "HEAD"
        if not is_chunked or self.flow.write_paused or self.is_closing:
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return
        super().data_received(data)
        if self.transport.get_protocol() is self:
            self.on_data()
        else:
            self.on_upgraded()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.on_write_paused()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.on_write_resumed()

    def on_write_paused(self) -> None:
        """Handle that the client must read before more is sent."""

    def on_write_resumed(self) -> None:
        """Handle that the client has read."""

    def on_connected(self) -> None:
        """Handle a new connection."""

    def on_data(self) -> None:
        """Handle bytes that were just parsed."""

    def on_upgraded(self) -> None:
        """Handle that the connection is a WebSocket now, which another protocol reads."""

    @property
    def connection_count(self) -> int:
        """Number of open connections, including this one."""
        return len(self.connections)

    @property
    def is_closing(self) -> bool:
        """Whether the connection has ended or is ending."""
        return self.transport.is_closing()

    @property
    def is_awaiting_head(self) -> bool:
        """Whether the next bytes are a request head: no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def is_awaiting_body(self) -> bool:
        """Whether a request is unanswered because its body has not arrived whole."""
        cycle = self.cycle
        return cycle is not None and cycle.more_body and not cycle.response_started

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    @property
    def request_scope(self) -> Mapping[str, Any]:
        """The ASGI scope of the latest request; do not ask before its head has arrived."""
        return self.scope

    @property
    def has_unread_input(self) -> bool:
        """Whether bytes have arrived that the event loop has not read yet."""
        socket = self.transport.get_extra_info("socket")
        number = -1 if socket is None else socket.fileno()
        if number < 0:
            return False
        waiting = select.poll()
        waiting.register(number, select.POLLIN)
        return bool(waiting.poll(0))

    def drop(self) -> None:
        """End the connection at once, with what is buffered: a close waits for who reads."""
        connected = self.transport.get_extra_info("socket")
        if connected is not None:  # else the kernel keeps what is sent already, for minutes
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def close_with(self, response: bytes) -> None:
        """Send a whole response, then close."""
        self.transport.write(response)
        self.transport.close()
