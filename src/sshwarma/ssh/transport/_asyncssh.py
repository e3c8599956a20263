"""The private names of asyncssh: the one file that may use them.

`AsyncsshConnection` and `AsyncsshChannel` use private names where asyncssh has no public ones, and
give connection.py, guard.py and channel.py public methods and hooks; `AsyncsshSftpHandler` does so
for sftp.py. They are subclasses; the installed package is never patched.
tests/ssh_transport/test_asyncssh_shape.py holds the source that this was written against, and fails
when a release changes it.

The send path of a packet is here as a whole, with direct attribute access: a line in a room of 200
is 200 packets, and each pays for a property or hook on that path (benchmarks/transport.py).
- AES-GCM uses the cached cipher of cipher.py.
- No MSG_IGNORE precedes each packet: it guards CBC chaining, which GCM does not have.
- `send_data` seals and sends a data packet at once if no key exchange or full buffer prevents it.
- What answers one piece of input goes out in one write.

Longer than 400 lines, because no other file may use these names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import asyncssh
from asyncssh.auth import MSG_USERAUTH_PK_OK
from asyncssh.channel import SSHServerChannel
from asyncssh.connection import SSHServerConnection, SSHServerConnectionOptions
from asyncssh.constants import (
    DISC_BY_APPLICATION,
    FXP_OPEN,
    FXP_OPENDIR,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_FAILURE,
    MSG_CHANNEL_OPEN,
    MSG_CHANNEL_REQUEST,
    MSG_GLOBAL_REQUEST,
    MSG_KEX_LAST,
    MSG_KEXINIT,
    MSG_REQUEST_FAILURE,
    MSG_USERAUTH_FAILURE,
    MSG_USERAUTH_SUCCESS,
    OPEN_ADMINISTRATIVELY_PROHIBITED,
)
from asyncssh.encryption import Encryption, GCMEncryption
from asyncssh.packet import SSHPacket, SSHPacketLogger
from asyncssh.sftp import SFTPLimits, SFTPName, SFTPServerHandler

from sshwarma.ssh.transport.cipher import CachedGCM

MAX_DEFERRED_REPLIES = 1_000
"""Replies deferred during a key exchange; an honest client requests none meanwhile."""

_AUTH_REPLIES = frozenset({MSG_USERAUTH_FAILURE, MSG_USERAUTH_SUCCESS, MSG_USERAUTH_PK_OK})
"""Sent on the fast path before the login is complete; asyncssh may defer the others."""

# Padding is encrypted with the payload; under an AEAD its content reveals nothing.
_PADDING = tuple(bytes(size) for size in range(32))
_PADDING_SIZE = tuple(bytes((size,)) for size in range(32))

_DATA = bytes((MSG_CHANNEL_DATA,))

LEFT_OUT_OF_SFTP = (b"copy-data", b"ranges@asyncssh.com", b"hardlink@openssh.com")
"""Extensions that are not offered: the first takes short reads for the end of a file, the second
needs a real file, and there are no links."""


def cached(encryption: Encryption | None) -> Encryption | None:
    """Return a cached form of a new GCM encryption; return any other unchanged."""
    if type(encryption) is GCMEncryption:
        cipher = encryption._cipher
        return CachedGCM(cipher, cipher._key, cipher._iv)
    return encryption


class AsyncsshConnection(SSHServerConnection):
    """A server connection with a fast send path, and hooks for client requests."""

    def __init__(self, options: SSHServerConnectionOptions, owner: asyncssh.SSHServer) -> None:
        super().__init__(asyncio.get_running_loop(), options)
        self._protocol_factory = lambda: owner
        self._heard = 0.0
        self.congested = False  # asyncio's own buffer is full
        self._replies: list[bytes] | None = None  # what answers the input being processed

    # State

    @property
    def socket_transport(self) -> asyncio.Transport | None:
        """The socket transport; None after the connection has ended."""
        return self._transport

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of this connection."""
        return self._loop

    @property
    def is_authenticated(self) -> bool:
        """Whether the login is complete."""
        return self._auth_complete

    @property
    def is_flowing(self) -> bool:
        """Whether channel data may go out now."""
        return self._kex_complete and not self.congested

    @property
    def open_channels(self) -> Sequence[AsyncsshChannel]:
        """The client's open channels, with or without a handler."""
        return cast("list[AsyncsshChannel]", list(self._channels.values()))

    @property
    def channels_open(self) -> int:
        """The number of `open_channels`."""
        return len(self._channels)

    @property
    def receive_sizes(self) -> tuple[int, int]:
        """The window and the largest packet of a new channel, in bytes."""
        return self._window, self._max_pktsize

    # Hooks

    def first_ciphers(self, client_version: bytes) -> Sequence[str]:
        """Return the ciphers offered in the first key exchange."""
        raise NotImplementedError

    def on_key_exchange_begun(self) -> None:
        """Handle the start of a key exchange: our KEXINIT has been sent."""

    async def before_key_exchange(self) -> None:
        """Wait if the client requests key exchanges too often."""

    def on_key_exchange_done(self) -> None:
        """Handle the end of a key exchange: the new keys are in use."""

    def on_auth_request(self) -> None:
        """Handle a new authentication request."""

    def on_cleanup(self) -> None:
        """Release the subclass's resources; the connection has ended."""

    def accepts_channel(self, kind: bytes, max_packet_bytes: int) -> bool:
        """Return whether asyncssh may process a request to open this kind of channel."""
        return True

    def accepts_global_request(self, kind: bytes) -> bool:
        """Return whether asyncssh may process this kind of global request."""
        return True

    def open_forward(self, host: str, port: int) -> tuple[AsyncsshChannel, object]:
        """Return the channel of a forwarded connection, and its session.

        Raises:
            asyncssh.ChannelOpenError: to refuse it.
        """
        raise asyncssh.ChannelOpenError(OPEN_ADMINISTRATIVELY_PROHIBITED, "no forwarding")

    # Sending

    def send_data(self, head: bytes, data: bytes, size: int) -> bool:
        """Seal and send one CHANNEL_DATA packet; return False, unsent, if it must wait."""
        encryption = self._send_encryption
        if type(encryption) is not CachedGCM or self.congested or not self._may_seal():
            return False
        self._send_sealed(encryption, b"".join((head, size.to_bytes(4, "big"), data)))
        return True

    def send_packet(
        self, pkttype: int, *args: bytes, handler: SSHPacketLogger | None = None
    ) -> None:
        """Send any packet, on the fast path if possible."""
        encryption = self._send_encryption
        if (
            pkttype > MSG_KEX_LAST
            and type(encryption) is CachedGCM
            and (self._may_seal() or self._may_seal_auth_reply(pkttype))
        ):
            self._send_sealed(encryption, b"".join((bytes((pkttype,)), *args)))
            return
        if len(self._deferred_packets) > MAX_DEFERRED_REPLIES:
            raise asyncssh.ProtocolError("Too many requests during key exchange")
        super().send_packet(pkttype, *args, handler=handler)

    def _may_seal(self) -> bool:
        """Return whether the fast path is open: logged in, no key exchange begun or due."""
        return (
            self._kex_complete
            and self._auth_complete
            and self._rekey_bytes_sent < self._rekey_bytes
            and self._loop.time() < self._rekey_time
        )

    def _may_seal_auth_reply(self, pkttype: int) -> bool:
        return self._kex_complete and not self._auth_complete and pkttype in _AUTH_REPLIES

    def _send_sealed(self, encryption: CachedGCM, payload: bytes) -> None:
        # RFC 5647, 7.2: at least 4 bytes of padding, to whole blocks of 16 without the length.
        padding = 16 - (1 + len(payload)) % 16
        if padding < 4:
            padding += 16
        packet = b"".join((_PADDING_SIZE[padding], payload, _PADDING[padding]))
        length = len(packet).to_bytes(4, "big")
        sealed = length + encryption.seal(length, packet)
        self._send_seq = (self._send_seq + 1) & 0xFFFFFFFF
        self._rekey_bytes_sent += len(packet)
        self._send(sealed)

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Process input; what answers it goes out in one write."""
        self._replies = []
        try:
            super().data_received(data, datatype)
        finally:
            self.flush_replies()
            self._replies = None

    def _send(self, data: bytes) -> None:
        if self._replies is None:
            super()._send(data)
        else:
            self._replies.append(data)

    def flush_replies(self) -> None:
        """Write the replies to the current input; call it before closing the transport."""
        if self._replies:
            super()._send(b"".join(self._replies))
            self._replies.clear()

    def _force_close(self, exc: Exception | None) -> None:
        self.flush_replies()
        super()._force_close(exc)

    def send_newkeys(self, k: bytes, h: bytes) -> None:
        """Cache the new ciphers, then send the data that waited for them."""
        super().send_newkeys(k, h)
        self._send_encryption = cached(self._send_encryption)
        self._next_recv_encryption = cached(self._next_recv_encryption)
        self.on_key_exchange_done()
        self.flush_channels()

    def flush_channels(self) -> None:
        """Send the data that channels have buffered."""
        for channel in self.open_channels:
            channel.flush()

    def log_sent_packet(self, *_args: object, **_kwargs: object) -> None:
        """Log nothing, as the channel does."""

    log_received_packet = log_sent_packet

    # Keepalives

    def _reset_keepalive_timer(self) -> None:
        """Record the time of input: cheaper than a new timer for every key typed."""
        self._heard = self._loop.time()

    def _keepalive_timer_callback(self) -> None:
        """Send a keepalive only after a whole interval of silence."""
        remaining = self._heard + self._keepalive_interval - self._loop.time()
        if remaining > 0.001:
            self._keepalive_count = 0
            self._keepalive_timer = self._loop.call_later(remaining, self._keepalive_timer_callback)
        else:
            super()._keepalive_timer_callback()

    # Requests

    def _send_kexinit(self) -> None:
        if not self._session_id:
            self._enc_algs = [name.encode() for name in self.first_ciphers(self._client_version)]
        super()._send_kexinit()
        self.on_key_exchange_begun()

    async def _answer_kexinit(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        await self.before_key_exchange()
        await self._process_kexinit(pkttype, pktid, packet)

    async def _finish_userauth(self, begin_auth: bool, method: bytes, packet: SSHPacket) -> None:
        self.on_auth_request()
        await super()._finish_userauth(begin_auth, method, packet)

    def _answer_open(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        header = SSHPacket(packet.get_remaining_payload())
        kind, number, _window = header.get_string(), header.get_uint32(), header.get_uint32()
        if self.accepts_channel(kind, header.get_uint32()):
            self._process_channel_open(pkttype, pktid, packet)
        else:
            reason = "only session channels are allowed"
            self.send_channel_open_failure(number, OPEN_ADMINISTRATIVELY_PROHIBITED, reason, "en")

    def _process_direct_tcpip_open(self, packet: SSHPacket) -> Any:
        host, port = packet.get_string(), packet.get_uint32()
        packet.get_string(), packet.get_uint32()  # where it comes from, which proves nothing
        packet.check_end()
        return self.open_forward(host.decode(errors="replace"), port)

    def _answer_global(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        header = SSHPacket(packet.get_remaining_payload())
        kind, want_reply = header.get_string(), header.get_boolean()
        if self.accepts_global_request(kind):
            self._process_global_request(pkttype, pktid, packet)
        elif want_reply:
            self.send_packet(MSG_REQUEST_FAILURE)

    # Ending

    def send_goodbye(self, reason: str) -> None:
        """Send MSG_DISCONNECT and leave the socket open."""
        self._send_disconnect(DISC_BY_APPLICATION, reason, "en")

    def force_close(self, error: Exception | None) -> None:
        """End the connection now and drop unsent data."""
        self._force_close(error)

    def _cleanup(self, exc: Exception | None) -> None:
        self.on_cleanup()
        super()._cleanup(exc)

    _packet_handlers: dict[int, Any] = {  # noqa: RUF012 - a table, declared so by asyncssh
        **SSHServerConnection._packet_handlers,
        MSG_KEXINIT: _answer_kexinit,
        MSG_CHANNEL_OPEN: _answer_open,
        MSG_GLOBAL_REQUEST: _answer_global,
    }


class AsyncsshChannel(SSHServerChannel[bytes]):
    """A session channel: bytes in and out, no line editor, a bounded send buffer."""

    _conn: AsyncsshConnection
    _head = b""
    begins_at_once = False
    """Whether its session starts when the channel is open: no request for a shell comes."""

    def __init__(
        self,
        connection: AsyncsshConnection,
        max_buffered_bytes: int,
        window: int,
        max_packet_bytes: int,
    ) -> None:
        super().__init__(
            connection,
            connection.event_loop,
            allow_pty=True,
            line_editor=False,
            line_echo=False,
            line_history=0,
            max_line_length=0,
            encoding=None,
            errors="strict",
            window=window,
            max_pktsize=max_packet_bytes,
        )
        self._max_buffered_bytes = max_buffered_bytes

    # State

    @property
    def client_term(self) -> str | None:
        """The terminal type as the client sent it; None without a pty."""
        return self._term_type

    @property
    def client_size(self) -> tuple[int, int]:
        """(columns, rows) as the client sent them."""
        return self._term_size[:2]

    @property
    def client_env(self) -> dict[bytes, bytes]:
        """The environment variables that `accepts_env` let in."""
        return self._env

    @property
    def buffered(self) -> int:
        """Bytes buffered for the peer."""
        return self._send_buf_len

    def widen_window(self, window: int) -> None:
        """Let the client send that many bytes ahead from its next grant of room on."""
        self._init_recv_window = window

    # Hooks

    def accepts_env(self, name: bytes, value: bytes) -> bool:
        """Return whether to keep this environment variable."""
        return True

    def accepts_request(self, kind: bytes) -> bool:
        """Return whether asyncssh may process this kind of channel request."""
        return True

    def on_buffer_full(self) -> None:
        """Handle a write that overflows the buffer; the data is dropped."""
        raise NotImplementedError

    # Sending

    def process_open(
        self, send_chan: int, send_window: int, send_pktsize: int, session: object
    ) -> None:
        """Store the header of this channel's data packets."""
        self._head = _DATA + send_chan.to_bytes(4, "big")
        super().process_open(send_chan, send_window, send_pktsize, cast("Any", session))

    async def _finish_open_request(self, result: Any) -> None:
        await super()._finish_open_request(result)
        if self.begins_at_once and self._session is not None:
            self._session.session_started()
            self.resume_reading()

    def write(self, data: bytes, datatype: int | None = None) -> None:
        """Send now if the peer's window has room, else buffer; do nothing once closed."""
        if self._send_state != "open" or not data:
            return
        size = len(data)
        if (
            datatype is None
            and not self._send_buf
            and size <= self._send_window
            and size <= self._send_pktsize
            and self._conn.send_data(self._head, data, size)
        ):
            self._send_window -= size
            return
        if self._send_buf_len + size > self._max_buffered_bytes:
            self.on_buffer_full()
            return
        if self._send_buf and self._send_buf[-1][1] == datatype:
            self._send_buf[-1][0].extend(data)
        else:
            self._send_buf.append((bytearray(data), datatype))
        self._send_buf_len += size
        self._flush_send_buf()

    def flush(self) -> None:
        """Send the buffered data."""
        if self._send_buf:
            self._flush_send_buf()

    def _flush_send_buf(self) -> None:
        """Keep data in this counted buffer while the connection cannot send."""
        if self._send_buf and not self._conn.is_flowing:
            self._pause_resume_writing()
        else:
            super()._flush_send_buf()

    def log_sent_packet(self, *_args: object, **_kwargs: object) -> None:
        """Log nothing: formatting the message costs as much as sealing the packet."""

    log_received_packet = log_sent_packet

    # Requests

    def _process_env_request(self, packet: SSHPacket) -> bool:
        name, value = packet.get_string(), packet.get_string()
        packet.check_end()
        accepted = self.accepts_env(name, value)
        if accepted:
            self._env[name] = value
        return accepted

    def _answer_request(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        header = SSHPacket(packet.get_remaining_payload())
        kind, want_reply = header.get_string(), header.get_boolean()
        if self.accepts_request(kind):
            self._process_request(pkttype, pktid, packet)
        elif want_reply:
            self.send_packet(MSG_CHANNEL_FAILURE)

    _packet_handlers: dict[int, Any] = {  # noqa: RUF012 - a table, declared so by asyncssh
        **SSHServerChannel._packet_handlers,
        MSG_CHANNEL_REQUEST: _answer_request,
    }


class AsyncsshSftpHandler(SFTPServerHandler):
    """The requests of one client of sftp, version 3, with few handles.

    The end of the input closes no handle: what a client did not close itself was cut off.
    """

    _extensions = [  # noqa: RUF012 - a table, declared so by asyncssh
        named for named in SFTPServerHandler._extensions if named[0] not in LEFT_OUT_OF_SFTP
    ]

    def __init__(self, server: asyncssh.SFTPServer, stream: Any) -> None:
        """Use one object as reader and writer."""
        super().__init__(server, stream, stream, 3)

    # Hooks

    def limits_of_client(self) -> tuple[int, int, int]:
        """Return the greatest packet, transfer and number of handles."""
        raise NotImplementedError

    def on_too_many_handles(self) -> asyncssh.SFTPError:
        """Return the refusal of a request to open one more file or folder."""
        raise NotImplementedError

    # Requests

    def _check_handles(self) -> None:
        if len(self._file_handles) + len(self._dir_handles) >= self.limits_of_client()[2]:
            raise self.on_too_many_handles()

    async def _process_open(self, packet: SSHPacket) -> bytes:
        self._check_handles()
        return await super()._process_open(packet)

    async def _process_opendir(self, packet: SSHPacket) -> bytes:
        """Read the folder at once, so that it is shown as it is when it is opened."""
        self._check_handles()
        handle = await super()._process_opendir(packet)
        opened = self._dir_handles.pop(handle)
        self._dir_handles[handle] = _iterate([name async for name in opened])
        return handle

    async def _process_limits(self, packet: SSHPacket) -> SFTPLimits:
        packet.check_end()
        packet_bytes, transfer_bytes, handles = self.limits_of_client()
        return SFTPLimits(packet_bytes, transfer_bytes, transfer_bytes, handles)

    async def _cleanup(self, exc: Exception | None) -> None:
        """Close nothing: the owner of the files ends them."""

    def log_sent_packet(self, *_args: object, **_kwargs: object) -> None:
        """Log nothing, as the channel does."""

    log_received_packet = log_sent_packet

    _packet_handlers: dict[Any, Any] = {  # noqa: RUF012 - a table, declared so by asyncssh
        **{
            kind: handler
            for kind, handler in SFTPServerHandler._packet_handlers.items()
            if kind not in LEFT_OUT_OF_SFTP
        },
        FXP_OPEN: _process_open,
        FXP_OPENDIR: _process_opendir,
        b"limits@openssh.com": _process_limits,
    }


async def _iterate(names: Sequence[SFTPName]) -> AsyncIterator[SFTPName]:
    for name in names:
        yield name
