"""What goes on in one channel: asyncssh's callbacks, turned into those of a `ChannelHandler`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import asyncssh

from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.channel import LeanChannel
from sshwarma.ssh.transport.ports import ChannelHandler, ClientLink, HandlerFactory, Rejected


class SessionOwner(ClientLink, Protocol):
    """What a session needs of the connection it belongs to."""

    def began(self, channel: LeanChannel) -> None:
        """A handler now runs in this channel."""

    def ended(self, channel: LeanChannel) -> None:
        """The handler in this channel has ended."""

    def crashed(self, error: BaseException | None) -> None:
        """Our own code has failed on this connection."""

    def abort(self) -> None:
        """Drop the connection without a word."""


class ChannelSession(asyncssh.SSHServerSession[bytes]):
    """One channel: turns asyncssh's callbacks into those of a `ChannelHandler`."""

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
        """Meet the channel."""
        self._chan = cast("LeanChannel", chan)

    def pty_requested(self, term_type: str, term_size: object, term_modes: object) -> bool:
        """Always granted; the channel keeps type and size."""
        return True

    def shell_requested(self) -> bool:
        """`ssh host`."""
        self._begin = lambda: self._sessions.shell(self._owner, self._chan)
        return True

    def exec_requested(self, command: str) -> bool:
        """`ssh host command`."""
        self._begin = lambda: self._exec(command)
        return True

    def _exec(self, command: str) -> ChannelHandler:
        most = self._limits.command_bytes
        if len(command.encode()) > most:
            raise Rejected(f"a command is at most {most} bytes; pipe long text in")
        return self._sessions.exec(self._owner, self._chan, command)

    def subsystem_requested(self, subsystem: str) -> bool:
        """`ssh -s host name`: the answer waits for the world's verdict."""
        try:
            handler = self._sessions.subsystem(self._owner, self._chan, subsystem)
        except Rejected:
            return False
        if handler is not None:
            self._begin = lambda: handler
        return handler is not None

    def session_started(self) -> None:
        """Start the handler, now that the client knows its request was granted.

        Not earlier: a command that ends at once would close the channel before that answer.
        """
        if self._begin is None:
            return
        try:
            self._handler = self._begin()
        except Rejected as no:
            self._chan.write_stderr(f"{no.reason}\r\n".encode())
            self._chan.exit(1)
        else:
            self._owner.began(self._chan)

    def data_received(self, data: bytes, datatype: object) -> None:
        """Hand input on."""
        if self._handler:
            self._handler.data(data)

    def eof_received(self) -> bool:
        """Hand the end of input on; stay open for the answer."""
        if self._handler:
            self._handler.eof()
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Deliver the latest size after a moment, however many come."""
        if self._handler and self._resizing is None:
            loop = asyncio.get_running_loop()
            self._resizing = loop.call_later(self._limits.resize_seconds, self._resize)

    def _resize(self) -> None:
        self._resizing = None
        if self._handler:
            self._guarded(self._handler.resized, *self._chan.size)

    def signal_received(self, signal: str) -> None:
        """INT and TERM interrupt; the others mean nothing here."""
        if self._handler and signal in {"INT", "TERM"}:
            self._handler.interrupt()

    def break_received(self, msec: int) -> bool:
        """A break interrupts."""
        if self._handler:
            self._handler.interrupt()
        return True

    def pause_writing(self) -> None:
        """Tell of the high-water mark."""
        if self._handler:
            self._guarded(self._handler.pause)

    def resume_writing(self) -> None:
        """Tell of the low-water mark."""
        if self._handler:
            self._guarded(self._handler.resume)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the handler, once, that it is over."""
        if self._resizing:
            self._resizing.cancel()
        handler, self._handler = self._handler, None
        if handler:
            self._owner.ended(self._chan)
            self._guarded(handler.closed, exc)

    def _guarded(self, call: Callable[..., None], *args: object) -> None:
        """Call a handler from where its failure would strike someone else: a writer, a timer."""
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one connection
            self._owner.crashed(error)
            self._owner.abort()
