"""What the ssh transport asks of the world, and what it hands it: the seam between the two.

The transport proves who signed and moves bytes; the world decides who may enter and what a
terminal shows. Everything here is called on the event loop, from one thread.

    Gate      may this key come in, and as whom?        implemented by the world
    Sessions  a shell, a command or a subsystem begins   implemented by the world
    Handler   what is running in one channel             implemented by the world
    Link      one authenticated connection               handed to the world
    Channel   where a handler writes                     handed to the world
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol


class Rejected(Exception):
    """Raised by `Gate.enter` and by `HandlerFactory` to turn a client away with `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end: facts of the handshake, none of them chosen by the world.

    `fingerprint` and `public_key` belong to the key whose signature was verified. `username` and
    `client` are what the client typed: wishes and decoration, never proof.
    """

    address: str
    port: int
    username: str
    fingerprint: str
    public_key: str
    client: str


class Authenticator(Protocol):
    """The world's door: knows keys."""

    def acceptable(self, username: str, fingerprint: str) -> bool:
        """Say whether a signature by this key would be worth checking.

        Called for every key a client offers, signed or not, at most `Limits.auth_requests` times
        a connection, before anyone is authenticated: answer from memory, at once, with no effect.
        True proves nothing about the peer; never remember it as an identity.
        """

    async def enter(self, peer: Peer) -> object:
        """Admit an authenticated peer and return the identity kept as `Link.identity`.

        Called exactly once a connection, after authentication is complete, with the key that
        really signed. No channel begins before it returns. Raise `WorldError` to disconnect with
        that reason. Cancelled after `Limits.enter_seconds`, or when the connection ends first.
        """


class ClientLink(Protocol):
    """One authenticated connection."""

    @property
    def peer(self) -> Peer:
        """Who it is, with the key that signed."""

    @property
    def identity(self) -> object:
        """What `Gate.enter` returned."""

    @property
    def channels(self) -> Collection[Channel]:
        """The channels now running a handler, oldest first."""

    @property
    def closed(self) -> bool:
        """True once the connection has ended or is ending."""

    def close(self, reason: str) -> None:
        """Disconnect politely: what was written is sent first, then `reason` on standard error.

        Returns at once and takes no more input; every handler's `closed` follows, after at most
        `Limits.farewell_seconds` twice over. Calling it again does nothing.
        """


class Channel(Protocol):
    """Where a handler writes. Writing to a channel that has closed does nothing."""

    @property
    def term(self) -> str:
        """The terminal type, only [A-Za-z0-9._-], at most 64; "" without a pty."""

    @property
    def size(self) -> tuple[int, int]:
        """(columns, rows), always within `Limits`; 80x24 while unknown."""

    @property
    def env(self) -> Mapping[str, str]:
        """What the client sent of LANG, LC_ALL, LC_CTYPE, NO_COLOR, COLORTERM and TERM."""

    @property
    def has_pty(self) -> bool:
        """Whether a terminal was asked for (`ssh host`, `ssh -t host cmd`)."""

    @property
    def buffered(self) -> int:
        """Bytes written here that the peer has not yet made room for."""

    def write(self, data: bytes) -> None:
        """Send bytes to the peer's standard output.

        Goes out at once as one packet when there is room, else waits in a bounded buffer:
        `Handler.pause` is called above the high-water mark. A handler that keeps writing past
        `Limits.send_buffer_hard` loses its connection.
        """

    def write_stderr(self, data: bytes) -> None:
        """Send bytes to the peer's standard error; same rules as `write`."""

    def exit(self, status: int) -> None:
        """Report an exit status (0..255), flush, and close the channel."""

    def close(self) -> None:
        """Flush and close the channel; the connection lives on for its other channels."""

    def pause_reading(self) -> None:
        """Stop `Handler.data` until `resume_reading`; the ssh window then holds the peer back."""

    def resume_reading(self) -> None:
        """Deliver input again, what had arrived meanwhile first."""


class ChannelHandler(Protocol):
    """What runs in one channel. All calls are synchronous and must return quickly.

    An exception from any of them is logged and ends that connection, no other.
    """

    def data(self, data: bytes) -> None:
        """Bytes arrived, at most 32 KiB a call; any bytes, cut anywhere."""

    def eof(self) -> None:
        """The peer will send no more. The channel stays open for writing. At most once."""

    def resized(self, columns: int, rows: int) -> None:
        """The terminal has a new size, clamped; at most one call in `Limits.resize_seconds`."""

    def interrupt(self) -> None:
        """The client sent signal INT or TERM, or a break (Ctrl-C typed in a pty is data)."""

    def pause(self) -> None:
        """The send buffer rose above its high-water mark: skip ahead rather than write."""

    def resume(self) -> None:
        """The send buffer fell to its low-water mark. Always follows a `pause` or a `closed`."""

    def closed(self, error: Exception | None) -> None:
        """The channel is gone. Exactly once, last, whatever the cause; None when orderly."""


class HandlerFactory(Protocol):
    """Makes handlers. Called at most once a channel, after `Gate.enter` has returned.

    `channel.write` and `channel.exit` work at once. Nothing is delivered to the handler before it
    is returned, and nothing further if the channel was closed meanwhile, save `closed`. Raise
    `WorldError` to say no: the reason goes to standard error with exit status 1.
    """

    def shell(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        """`ssh host`."""

    def exec(self, link: ClientLink, channel: Channel, command: str) -> ChannelHandler:
        """`ssh host command`; the text as sent, at most `Limits.command_bytes` of UTF-8."""

    def subsystem(self, link: ClientLink, channel: Channel, name: str) -> ChannelHandler | None:
        """`ssh -s host name` (sftp); None refuses it, and the connection lives on.

        Unlike the other two this is asked before the client is answered: write nothing yet.
        """
