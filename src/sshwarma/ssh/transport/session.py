"""The session of one channel: maps asyncssh's callbacks to a `ChannelHandler`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import asyncssh

from sshwarma.common.exit_status import EXIT_FAILED
from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.channel import LeanChannel
from sshwarma.ssh.transport.interfaces import ChannelHandler, ClientLink, HandlerFactory, Rejected


class SessionOwner(ClientLink, Protocol):
    """The interface of a connection that its sessions use."""

    def on_channel_opened(self, channel: LeanChannel) -> None:
        """Record that a handler runs in this channel."""

    def on_channel_closed(self, channel: LeanChannel) -> None:
        """Record that the channel's handler has ended."""

    def on_crash(self, error: BaseException | None) -> None:
        """Report a failure of our own code on this connection."""

    def abort(self) -> None:
        """Drop the connection without a message."""


class ChannelSession(asyncssh.SSHServerSession[bytes]):
    """The asyncssh session of one channel, which calls a `ChannelHandler`."""

    def __init__(
        self, owner: SessionOwner, sessions: HandlerFactory, limits: AdmissionLimits
    ) -> None:
        self._owner = owner
        self._sessions = sessions
        self._limits = limits
        self._chan: LeanChannel
        self._begin: Callable[[], ChannelHandler] | None = None
        self._handler: ChannelHandler | None = None
        self._resizing: asyncio.TimerHandle | None = None

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """Store the channel."""
        self._chan = cast("LeanChannel", chan)

    def pty_requested(self, term_type: str, term_size: object, term_modes: object) -> bool:
        """Grant a terminal; the channel keeps its type and size."""
        return True

    def shell_requested(self) -> bool:
        """Accept `ssh host`."""
        self._begin = lambda: self._sessions.shell(self._owner, self._chan)
        return True

    def exec_requested(self, command: str) -> bool:
        """Accept `ssh host command`."""
        self._begin = lambda: self._exec(command)
        return True

    def _exec(self, command: str) -> ChannelHandler:
        most = self._limits.max_command_bytes
        if len(command.encode()) > most:
            raise Rejected(f"a command must be at most {most} bytes; pipe longer text to it")
        return self._sessions.exec(self._owner, self._chan, command)

    def subsystem_requested(self, subsystem: str) -> bool:
        """Accept `ssh -s host name` if the world has a handler for it."""
        try:
            handler = self._sessions.subsystem(self._owner, self._chan, subsystem)
        except Rejected:
            return False
        if handler is not None:
            self._begin = lambda: handler
        return handler is not None

    def forward(self, host: str, port: int) -> None:
        """Be the session of a connection that the client forwards.

        Raises:
            Rejected: if the world does not let it.
        """
        self._sessions.check_forward(self._owner, host, port)
        self._begin = lambda: self._sessions.forward(self._owner, self._chan)

    def session_started(self) -> None:
        """Start the handler after the client got the reply to its request.

        Not earlier: a command that ends at once would close the channel before that reply.
        """
        if self._begin is None:
            return
        try:
            self._handler = self._begin()
        except Rejected as error:
            self._chan.write_stderr(f"{error.reason}\r\n".encode())
            self._chan.exit(EXIT_FAILED)
        else:
            self._owner.on_channel_opened(self._chan)

    def data_received(self, data: bytes, datatype: object) -> None:
        """Pass input to the handler, after a size that came before it."""
        if self._resizing is not None:
            self._resizing.cancel()
            self._resize()
        if self._handler:
            self._handler.data(data)

    def eof_received(self) -> bool:
        """Pass the end of input to the handler; keep the channel open for output."""
        if self._handler:
            self._handler.eof()
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Deliver the latest size after `resize_seconds`, once for many resizes."""
        if self._handler and self._resizing is None:
            loop = asyncio.get_running_loop()
            self._resizing = loop.call_later(self._limits.resize_seconds, self._resize)

    def _resize(self) -> None:
        self._resizing = None
        if self._handler:
            self._call_handler(self._handler.resized, *self._chan.size)

    def signal_received(self, signal: str) -> None:
        """Interrupt on INT and TERM; ignore other signals."""
        if self._handler and signal in {"INT", "TERM"}:
            self._handler.interrupt()

    def break_received(self, msec: int) -> bool:
        """Interrupt on a break."""
        if self._handler:
            self._handler.interrupt()
        return True

    def pause_writing(self) -> None:
        """Pass the high-water mark to the handler."""
        if self._handler:
            self._call_handler(self._handler.pause)

    def resume_writing(self) -> None:
        """Pass the low-water mark to the handler."""
        if self._handler:
            self._call_handler(self._handler.resume)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end of the channel to the handler, once."""
        if self._resizing:
            self._resizing.cancel()
        handler, self._handler = self._handler, None
        if handler:
            self._owner.on_channel_closed(self._chan)
            self._call_handler(handler.closed, exc)

    def _call_handler(self, call: Callable[..., None], *args: object) -> None:
        """Call a handler from a writer or timer, where its failure would hit other code."""
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - any failure ends one connection only
            self._owner.on_crash(error)
            self._owner.abort()
