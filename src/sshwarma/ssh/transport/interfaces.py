"""The interfaces between the ssh transport and the world.

The transport verifies signatures and moves bytes; the world decides who may log in and what a
terminal shows. Everything here is called on the event loop, from one thread.

    Authenticator   admits keys and maps them to identities       implemented by the world
    HandlerFactory  makes handlers of shells, commands, subsystems implemented by the world
    ChannelHandler  runs in one channel                           implemented by the world
    SftpFiles       the files that a client of sftp sees          implemented by the world
    ClientLink      one authenticated connection                  passed to the world
    Channel         the output of a handler                       passed to the world
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


class Rejected(Exception):
    """A refusal with a reason, raised by `Authenticator.enter` and `HandlerFactory`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Peer:
    """The client of a connection, as the handshake reported it.

    `fingerprint` and `public_key` belong to the key whose signature was verified. `username` and
    `client` are sent by the client and prove nothing.
    """

    address: str
    port: int
    username: str
    fingerprint: str
    public_key: str
    client: str


@dataclass(frozen=True, slots=True)
class FailedLogin:
    """A connection that tried to log in and was not admitted.

    `fingerprint` is that of the last key that was tried; "" if none was. `offered` are those of all
    keys that the client offered, and `username` is what it sent, which prove nothing.
    """

    address: str
    fingerprint: str
    tries: int
    reason: str
    offered: tuple[str, ...] = ()
    username: str = ""


class Authenticator(Protocol):
    """Decides which keys may log in, and as whom."""

    def is_acceptable(self, username: str, fingerprint: str) -> bool:
        """Return whether a signature by this key should be checked.

        Called for every key a client offers, signed or not, at most
        `AdmissionLimits.max_auth_requests` times per connection, before authentication. Answer from
        memory, without waiting and without side effects. True proves nothing about the peer;
        never store it as an identity.
        """

    async def enter(self, peer: Peer) -> object:
        """Admit an authenticated peer; return its identity, for `ClientLink.identity`.

        Called exactly once per connection, after authentication is complete, with the key that
        signed. No channel begins before it returns. Cancelled after
        `AdmissionLimits.enter_seconds`, or when the connection ends first.

        Raises:
            Rejected: to disconnect the client with that reason.
        """

    def left(self, peer: Peer, identity: object, seconds: float) -> None:
        """Take note that the connection of an admitted peer has ended."""

    def failed(self, failure: FailedLogin) -> None:
        """Take note of a connection that tried to log in and was not admitted."""


class ClientLink(Protocol):
    """One authenticated connection."""

    @property
    def peer(self) -> Peer:
        """The peer, with the key that signed."""

    @property
    def identity(self) -> object:
        """The identity that `Authenticator.enter` returned."""

    @property
    def channels(self) -> Collection[Channel]:
        """The channels now running a handler, oldest first."""

    @property
    def closed(self) -> bool:
        """Whether the connection has ended or is ending."""

    def close(self, reason: str) -> None:
        """Disconnect after sending buffered data, then `reason` on standard error.

        Returns at once and accepts no more input. Every handler's `closed` follows within twice
        `AdmissionLimits.farewell_seconds`. A second call does nothing.
        """


class Channel(Protocol):
    """The output of a handler. Writing to a closed channel does nothing."""

    @property
    def term(self) -> str:
        """The terminal type, only [A-Za-z0-9._-], at most 64; "" without a pty."""

    @property
    def size(self) -> tuple[int, int]:
        """(columns, rows), always within `AdmissionLimits`; 80x24 while unknown."""

    @property
    def is_too_small(self) -> bool:
        """Whether the terminal is smaller than the least `size`, and cuts rows."""

    @property
    def env(self) -> Mapping[str, str]:
        """The variables of the client's environment that it sent and that are kept.

        They are LANG, LC_ALL, LC_CTYPE, NO_COLOR, COLORTERM, TERM, LC_TERMINAL and TERM_PROGRAM.
        """

    @property
    def has_pty(self) -> bool:
        """Whether the client requested a terminal (`ssh host`, `ssh -t host cmd`)."""

    @property
    def buffered(self) -> int:
        """Bytes written here that wait for room in the peer's window."""

    def write(self, data: bytes) -> None:
        """Send bytes to the peer's standard output.

        They are sent at once as one packet if there is room, else kept in a bounded buffer:
        `ChannelHandler.pause` is called above its high-water mark. A handler that keeps writing
        past `AdmissionLimits.max_send_buffer_bytes` loses its connection.
        """

    def write_stderr(self, data: bytes) -> None:
        """Send bytes to the peer's standard error; same rules as `write`."""

    def exit(self, status: int) -> None:
        """Report an exit status (0..255), flush, and close the channel."""

    def close(self) -> None:
        """Flush and close the channel; the connection stays open for its other channels."""

    def pause_reading(self) -> None:
        """Stop calls of `ChannelHandler.data`; the ssh window then holds the peer back."""

    def resume_reading(self) -> None:
        """Deliver input again, beginning with the input held back."""


class ChannelHandler(Protocol):
    """The handler of one channel. All calls are synchronous and must return quickly.

    An exception from any of them is logged and ends that connection, no other.
    """

    def data(self, data: bytes) -> None:
        """Handle input: any bytes, cut anywhere, at most 32 KiB per call."""

    def eof(self) -> None:
        """Handle the end of input, at most once. The channel stays open for writing."""

    def resized(self, columns: int, rows: int) -> None:
        """Handle a new, clamped size.

        At most once per `AdmissionLimits.resize_seconds`, but before input that follows it. The
        size may be as before, if it was another for a moment.
        """

    def interrupt(self) -> None:
        """Handle signal INT or TERM, or a break. Ctrl-C typed in a pty arrives as data."""

    def pause(self) -> None:
        """Stop writing: the send buffer is above its high-water mark. Skip output."""

    def resume(self) -> None:
        """Write again: the buffer is at its low-water mark.

        It follows a `pause` or a `closed`.
        """

    def closed(self, error: Exception | None) -> None:
        """Handle the channel's end: exactly once, last; `error` is None if orderly."""


class HandlerFactory(Protocol):
    """Makes handlers; called at most once per channel, after `Authenticator.enter`.

    `channel.write` and `channel.exit` work at once. The handler gets no call before it is
    returned, and only `closed` if the channel was closed meanwhile. Raise `Rejected` to refuse:
    the reason goes to standard error with exit status 1.
    """

    def shell(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        """Make the handler of `ssh host`."""

    def exec(self, link: ClientLink, channel: Channel, command: str) -> ChannelHandler:
        """Make the handler of `ssh host command`.

        The command is as sent, at most `AdmissionLimits.max_command_bytes` of UTF-8.
        """

    def subsystem(self, link: ClientLink, channel: Channel, name: str) -> ChannelHandler | None:
        """Make the handler of `ssh -s host name`, or None to refuse.

        After a refusal the connection stays open. Unlike the other two this is called before the
        client gets its reply: write nothing yet.
        """

    def check_forward(self, link: ClientLink, host: str, port: int) -> None:
        """Raise `Rejected` unless the client may forward to that name (`ssh -L`)."""

    def forward(self, link: ClientLink, channel: Channel) -> ChannelHandler:
        """Make the handler of a connection that `check_forward` has let pass."""


class SftpRefused(Exception):
    """A refusal of one request over sftp, raised by `SftpFiles`.

    Attributes:
        kind: the answer that the client gets; OpenSSH shows it and no other words.
        reason: a sentence, for clients that show it.
    """

    def __init__(
        self, kind: Literal["missing", "denied", "failure", "unsupported"], reason: str
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SftpAttributes:
    """What is known of a file or folder.

    Attributes:
        mode: kind and permissions, as `st_mode` has them.
        size: in bytes.
        modified_at: in seconds since 1970.
    """

    mode: int
    size: int = 0
    modified_at: int = 0


@dataclass(frozen=True, slots=True)
class SftpChanges:
    """Attributes that a client sets; None is left as it is. Times are not kept.

    `permissions` are those of `st_mode`; `owner` is the number of a user and of a group.
    """

    size: int | None = None
    permissions: int | None = None
    owner: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class SftpOpenMode:
    """How a file is opened, as the flags of open(2) say it."""

    reads: bool = False
    writes: bool = False
    appends: bool = False
    creates: bool = False
    truncates: bool = False
    exclusive: bool = False
    permissions: int | None = None


@dataclass(frozen=True, slots=True)
class SftpSpace:
    """How much room there is, in bytes and in files."""

    total_bytes: int
    free_bytes: int
    total_files: int
    free_files: int


class SftpFile(Protocol):
    """An open file. Every method may raise `SftpRefused`."""

    async def read(self, offset: int, size: int) -> bytes:
        """Return what is at an offset: fewer bytes at the end, none behind it."""

    async def write(self, offset: int, data: bytes) -> None:
        """Put bytes at an offset."""

    async def stat(self) -> SftpAttributes:
        """Return its attributes."""

    async def set_attributes(self, changes: SftpChanges) -> None:
        """Set some of its attributes."""

    async def sync(self) -> None:
        """Wait until what was written is on the disk."""

    async def space(self) -> SftpSpace:
        """Return the room where it is."""

    async def close(self) -> None:
        """Keep what was written: the client closed it. The end of a connection does not."""


class SftpFiles(Protocol):
    """The files of one client of sftp. Every method may raise `SftpRefused`.

    Paths are as the client sent them. Requests come one after another.
    """

    def resolve(self, path: bytes) -> bytes:
        """Return a path from the root, without `.` and `..`."""

    async def open(self, path: bytes, mode: SftpOpenMode) -> SftpFile:
        """Open a file."""

    async def stat(self, path: bytes) -> SftpAttributes:
        """Return the attributes of a file or folder."""

    async def list_folder(self, path: bytes) -> Mapping[bytes, SftpAttributes]:
        """Return what is in a folder, by name, in the order to show."""

    async def set_attributes(self, path: bytes, changes: SftpChanges) -> None:
        """Set some attributes of a file or folder."""

    async def make_folder(self, path: bytes) -> None:
        """Make a folder."""

    async def remove_folder(self, path: bytes) -> None:
        """Remove an empty folder."""

    async def remove(self, path: bytes) -> None:
        """Remove a file."""

    async def rename(self, old: bytes, new: bytes, *, replaces: bool) -> None:
        """Give a file or folder another path; with `replaces`, in place of a file there."""

    async def space(self, path: bytes) -> SftpSpace:
        """Return the room where a path is."""
