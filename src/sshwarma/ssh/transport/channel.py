"""One session channel as handlers write to it: lean, bounded and deaf to most requests.

A write that fits the peer's window is sealed and sent at once, by `LeanConnection.send_data`. A
peer may stop reading at any moment: what cannot go out now stays in the buffer here, of which
`Handler.pause` and `resume` tell, and never in asyncio's or asyncssh's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from asyncssh.channel import SSHServerChannel
from asyncssh.constants import MSG_CHANNEL_DATA, MSG_CHANNEL_FAILURE, MSG_CHANNEL_REQUEST
from asyncssh.packet import SSHPacket

if TYPE_CHECKING:
    from sshwarma.ssh.transport.connection import LeanConnection
    from sshwarma.ssh.transport.ports import Channel

ALLOWED_ENV_NAMES = frozenset({b"LANG", b"LC_ALL", b"LC_CTYPE", b"NO_COLOR", b"COLORTERM", b"TERM"})
ALLOWED_CHANNEL_REQUESTS = frozenset(
    {
        *(b"pty-req", b"env", b"shell", b"exec", b"subsystem"),
        *(b"window-change", b"signal", b"break", b"keepalive@openssh.com"),
    }
)
"""What may be asked of a channel. X11, agents and what a later release may learn are refused."""

_DATA = bytes((MSG_CHANNEL_DATA,))

_INVALID_TERM_CHARACTER = re.compile(r"[^A-Za-z0-9._-]")
_MAX_TERM_CHARACTERS = 64


class LeanChannel(SSHServerChannel[bytes]):
    """A session channel; what `ports.Channel` promises a handler."""

    _conn: LeanConnection
    _head = b""

    @property
    def term(self) -> str:
        """The terminal type, made harmless."""
        return _INVALID_TERM_CHARACTER.sub("", self._term_type or "")[:_MAX_TERM_CHARACTERS]

    @property
    def size(self) -> tuple[int, int]:
        """(columns, rows), clamped."""
        limits = self._conn.limits
        columns, rows = self._term_size[:2]
        return _clamp(columns or 80, limits.columns), _clamp(rows or 24, limits.rows)

    @property
    def env(self) -> Mapping[str, str]:
        """The few variables kept, of what the client sent."""
        return MappingProxyType({k.decode(): v.decode("utf-8") for k, v in self._env.items()})

    @property
    def has_pty(self) -> bool:
        """Whether a terminal was granted."""
        return self._term_type is not None

    @property
    def buffered(self) -> int:
        """Bytes waiting for the peer."""
        return self._send_buf_len

    def process_open(
        self, send_chan: int, send_window: int, send_pktsize: int, session: object
    ) -> None:
        """Remember how each of our data packets begins."""
        self._head = _DATA + send_chan.to_bytes(4, "big")
        super().process_open(send_chan, send_window, send_pktsize, cast("Any", session))

    def write(self, data: bytes, datatype: int | None = None) -> None:
        """Send now if the peer has room, else buffer; nothing once closed."""
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
        if self._send_buf_len + size > self._conn.limits.send_buffer_hard:
            self._conn.farewell("you are not reading what you are sent")
            return
        if self._send_buf and self._send_buf[-1][1] == datatype:
            self._send_buf[-1][0].extend(data)
        else:
            self._send_buf.append((bytearray(data), datatype))
        self._send_buf_len += size
        self._flush_send_buf()

    def flush(self) -> None:
        """Send what waited for the connection."""
        if self._send_buf:
            self._flush_send_buf()

    def _flush_send_buf(self) -> None:
        """Keep data here, where it is counted, while the connection cannot take it."""
        if self._send_buf and not self._conn.flowing:
            self._pause_resume_writing()
        else:
            super()._flush_send_buf()

    def _process_env_request(self, packet: SSHPacket) -> bool:
        """Keep the few names we use, short and readable; refuse the others."""
        name, value = packet.get_string(), packet.get_string()
        packet.check_end()
        if name not in ALLOWED_ENV_NAMES or len(value) > self._conn.limits.env_bytes:
            return False
        try:
            readable = value.decode("utf-8").isprintable()
        except UnicodeDecodeError:
            return False
        if readable:
            self._env[name] = value
        return readable

    def _answer_request(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        ahead = SSHPacket(packet.get_remaining_payload())
        kind, want_reply = ahead.get_string(), ahead.get_boolean()
        if kind in ALLOWED_CHANNEL_REQUESTS:
            self._process_request(pkttype, pktid, packet)
        elif want_reply:
            self.send_packet(MSG_CHANNEL_FAILURE)

    def log_sent_packet(self, *_args: object, **_kwargs: object) -> None:
        """Say nothing: composing the words costs as much as sealing the packet."""

    log_received_packet = log_sent_packet

    _packet_handlers: dict[int, Any] = {  # noqa: RUF012 - a table, declared so by asyncssh
        **SSHServerChannel._packet_handlers,
        MSG_CHANNEL_REQUEST: _answer_request,
    }


def _clamp(value: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(value, bounds[1]))


if TYPE_CHECKING:  # the promise made in ports.py, checked

    def _is_channel(channel: LeanChannel) -> Channel:
        return channel
