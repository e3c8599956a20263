"""A session channel for handlers: fast, bounded, and closed to most requests.

A write that fits the peer's window is sealed and sent at once. A peer may stop reading at any
moment: unsent data stays in the channel's buffer, never in asyncio's or asyncssh's. Its limits
call `ChannelHandler.pause` and `resume`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from sshwarma.ssh.transport._asyncssh import AsyncsshChannel, AsyncsshConnection
from sshwarma.ssh.transport.admission import AdmissionLimits

if TYPE_CHECKING:
    from sshwarma.ssh.transport.interfaces import Channel

ALLOWED_ENV_NAMES = frozenset(
    {
        *(b"LANG", b"LC_ALL", b"LC_CTYPE", b"NO_COLOR", b"COLORTERM", b"TERM"),
        *(b"LC_TERMINAL", b"TERM_PROGRAM"),
    }
)
ALLOWED_CHANNEL_REQUESTS = frozenset(
    {
        *(b"pty-req", b"env", b"shell", b"exec", b"subsystem"),
        *(b"window-change", b"signal", b"break", b"keepalive@openssh.com"),
    }
)
"""Accepted channel requests. X11, agent forwarding and types of later releases are refused."""

_INVALID_TERM_CHARACTER = re.compile(r"[^A-Za-z0-9._-]")
_MAX_TERM_CHARACTERS = 64


class LeanChannel(AsyncsshChannel):
    """A session channel; implements `interfaces.Channel`."""

    def __init__(
        self,
        connection: AsyncsshConnection,
        limits: AdmissionLimits,
        farewell: Callable[[str], None],
        window: int,
        max_packet_bytes: int,
    ) -> None:
        """Open a channel; `farewell` ends the connection of a peer that does not read."""
        super().__init__(connection, limits.max_send_buffer_bytes, window, max_packet_bytes)
        self._limits = limits
        self._farewell = farewell
        self.set_write_buffer_limits(limits.send_buffer_high_bytes, limits.send_buffer_low_bytes)

    @property
    def term(self) -> str:
        """The terminal type without characters outside [A-Za-z0-9._-]."""
        return _INVALID_TERM_CHARACTER.sub("", self.client_term or "")[:_MAX_TERM_CHARACTERS]

    @property
    def size(self) -> tuple[int, int]:
        """(columns, rows), clamped."""
        limits = self._limits
        columns, rows = self.client_size
        return _clamp(columns or 80, limits.columns), _clamp(rows or 24, limits.rows)

    @property
    def is_too_small(self) -> bool:
        """Whether the terminal is smaller than the least size; 0 is an unknown size."""
        columns, rows = self.client_size
        return 0 < columns < self._limits.columns[0] or 0 < rows < self._limits.rows[0]

    @property
    def env(self) -> Mapping[str, str]:
        """The client's environment variables that are allowed here."""
        return MappingProxyType({k.decode(): v.decode("utf-8") for k, v in self.client_env.items()})

    @property
    def has_pty(self) -> bool:
        """Whether a terminal was granted."""
        return self.client_term is not None

    def on_buffer_full(self) -> None:
        """End the connection, because its peer does not read."""
        self._farewell("your client has stopped reading its output")

    def accepts_env(self, name: bytes, value: bytes) -> bool:
        """Accept allowed names with short, printable values; refuse all others."""
        if name not in ALLOWED_ENV_NAMES or len(value) > self._limits.max_env_bytes:
            return False
        try:
            return value.decode("utf-8").isprintable()
        except UnicodeDecodeError:
            return False

    def accepts_request(self, kind: bytes) -> bool:
        """Deny by default."""
        return kind in ALLOWED_CHANNEL_REQUESTS


class ForwardedChannel(LeanChannel):
    """The channel of a connection that the client forwards: bytes, and no requests."""

    begins_at_once = True

    def accepts_request(self, kind: bytes) -> bool:
        """Accept none: there is no shell in it."""
        return False


def _clamp(value: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(value, bounds[1]))


if TYPE_CHECKING:  # check that LeanChannel implements interfaces.Channel

    def _is_channel(channel: LeanChannel) -> Channel:
        return channel
