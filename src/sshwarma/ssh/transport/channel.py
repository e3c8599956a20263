"""One session channel as handlers write to it: lean, bounded and deaf to most requests.

A write that fits the peer's window is sealed and sent at once. A peer may stop reading at any
moment: what cannot go out now stays in the channel's buffer, of which `Handler.pause` and `resume`
tell, and never in asyncio's or asyncssh's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from sshwarma.ssh.transport._asyncssh import AsyncsshChannel, AsyncsshConnection
from sshwarma.ssh.transport.admission import AdmissionLimits

if TYPE_CHECKING:
    from sshwarma.ssh.transport.ports import Channel

ALLOWED_ENV_NAMES = frozenset({b"LANG", b"LC_ALL", b"LC_CTYPE", b"NO_COLOR", b"COLORTERM", b"TERM"})
ALLOWED_CHANNEL_REQUESTS = frozenset(
    {
        *(b"pty-req", b"env", b"shell", b"exec", b"subsystem"),
        *(b"window-change", b"signal", b"break", b"keepalive@openssh.com"),
    }
)
"""What may be asked of a channel. X11, agents and what a later release may learn are refused."""

_INVALID_TERM_CHARACTER = re.compile(r"[^A-Za-z0-9._-]")
_MAX_TERM_CHARACTERS = 64


class LeanChannel(AsyncsshChannel):
    """A session channel; what `ports.Channel` promises a handler."""

    def __init__(
        self,
        connection: AsyncsshConnection,
        limits: AdmissionLimits,
        farewell: Callable[[str], None],
        window: int,
        max_packet_bytes: int,
    ) -> None:
        """`farewell` ends the connection of a peer that does not read, with a reason."""
        super().__init__(connection, limits.send_buffer_hard, window, max_packet_bytes)
        self._limits = limits
        self._farewell = farewell
        self.set_write_buffer_limits(limits.send_buffer_high, limits.send_buffer_low)

    @property
    def term(self) -> str:
        """The terminal type, made harmless."""
        return _INVALID_TERM_CHARACTER.sub("", self.client_term or "")[:_MAX_TERM_CHARACTERS]

    @property
    def size(self) -> tuple[int, int]:
        """(columns, rows), clamped."""
        limits = self._limits
        columns, rows = self.client_size
        return _clamp(columns or 80, limits.columns), _clamp(rows or 24, limits.rows)

    @property
    def env(self) -> Mapping[str, str]:
        """The few variables kept, of what the client sent."""
        return MappingProxyType({k.decode(): v.decode("utf-8") for k, v in self.client_env.items()})

    @property
    def has_pty(self) -> bool:
        """Whether a terminal was granted."""
        return self.client_term is not None

    def on_buffer_full(self) -> None:
        """End the connection: its peer does not read."""
        self._farewell("you are not reading what you are sent")

    def accepts_env(self, name: bytes, value: bytes) -> bool:
        """Keep the few names we use, short and readable; refuse the others."""
        if name not in ALLOWED_ENV_NAMES or len(value) > self._limits.env_bytes:
            return False
        try:
            return value.decode("utf-8").isprintable()
        except UnicodeDecodeError:
            return False

    def accepts_request(self, kind: bytes) -> bool:
        """Deny by default."""
        return kind in ALLOWED_CHANNEL_REQUESTS


def _clamp(value: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(value, bounds[1]))


if TYPE_CHECKING:  # the promise made in ports.py, checked

    def _is_channel(channel: LeanChannel) -> Channel:
        return channel
