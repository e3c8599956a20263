"""The bytes of ssh: asyncssh's connection, made lean and bounded.

Lean: `AsyncsshConnection` has a short way for packets, and AES-GCM is what OpenSSH clients are
offered, which that way needs.

Bounded, because a peer may stop reading at any moment: channel data then waits in its channel,
deferred replies are counted, and input is not read while the answers to it go unread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncssh
from asyncssh.connection import SSHServerConnectionOptions

from sshwarma.common.rate_limit import TokenBucket
from sshwarma.ssh.transport._asyncssh import AsyncsshConnection
from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.channel import LeanChannel
from sshwarma.ssh.transport.cipher import CTR_CIPHERS, GCM_CIPHERS

MAX_UNREAD_REPLY_BYTES = 256 * 1024
"""Bytes the peer has not read, data aside, beyond which we read nothing more from it."""


class LeanConnection(AsyncsshConnection):
    """One client's connection: lean sending, bounded buffers, and little that it answers to."""

    def __init__(
        self,
        options: SSHServerConnectionOptions,
        owner: asyncssh.SSHServer,
        limits: AdmissionLimits,
    ) -> None:
        super().__init__(options, owner)
        self.limits = limits
        self.leaving = False
        self._rekeys = TokenBucket(
            limits.rekeys_per_second, limits.rekey_burst, self.event_loop.time
        )
        self._kex_timer: asyncio.TimerHandle | None = None
        self._farewell_timer: asyncio.TimerHandle | None = None

    # A peer that does not read

    def pause_writing(self) -> None:
        """Hold channel data back: asyncio's own buffer is full."""
        self.congested = True

    def resume_writing(self) -> None:
        """Let it flow again."""
        self.congested = False
        transport = self.socket_transport
        if transport:
            transport.resume_reading()
        self.flush_channels()

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Take input, unless our answers to the last of it go unread."""
        super().data_received(data, datatype)
        if not self.congested:
            return
        transport = self.socket_transport
        if (
            transport
            and not transport.is_closing()
            and transport.get_write_buffer_size() > MAX_UNREAD_REPLY_BYTES
        ):
            transport.pause_reading()

    # Key exchange

    def first_ciphers(self, client_version: bytes) -> Sequence[str]:
        """Offer CTR only to those who may lack GCM."""
        return (
            GCM_CIPHERS
            if client_version.startswith(b"SSH-2.0-OpenSSH_")
            else GCM_CIPHERS + CTR_CIPHERS
        )

    def on_key_exchange_begun(self) -> None:
        """Let no exchange after the first go unfinished."""
        if self.is_authenticated and self._kex_timer is None:
            self._kex_timer = self.event_loop.call_later(
                self.limits.rekey_grace,
                self.connection_lost,
                asyncssh.ConnectionLost("Key exchange not finished"),
            )

    async def before_key_exchange(self) -> None:
        """Make a client that asks too often wait."""
        wait = self._rekeys.take()
        if wait > 0 and self.socket_transport:
            self.socket_transport.pause_reading()
            await asyncio.sleep(wait)
            if self.socket_transport:
                self.socket_transport.resume_reading()

    def on_key_exchange_done(self) -> None:
        """Stop waiting for it."""
        self._stop_kex_timer()

    def _stop_kex_timer(self) -> None:
        if self._kex_timer:
            self._kex_timer.cancel()
            self._kex_timer = None

    # Channels

    def create_server_channel(
        self,
        encoding: str | None = None,
        errors: str = "strict",
        window: int = 0,
        max_pktsize: int = 0,
    ) -> LeanChannel:
        """Make a lean channel: bytes in, bytes out, no line editor, whatever is asked."""
        own_window, own_pktsize = self.receive_sizes
        return LeanChannel(
            self, self.limits, self.farewell, window or own_window, max_pktsize or own_pktsize
        )

    # Ending

    def farewell(self, reason: str) -> None:
        """End the connection with a reason the person sees, after all that was written to them.

        A client told to disconnect drops what it has not yet shown, so the reason goes down each
        channel's standard error, and the client is left a moment to hang up by itself.
        """
        if self.leaving or self.socket_transport is None:
            return
        self.leaving = True
        running = [channel for channel in self.open_channels if not channel.is_closing()]
        for channel in running:
            channel.write_stderr(f"{reason}\r\n".encode())
            channel.close()
        if running:
            self._farewell_timer = self.event_loop.call_later(
                self.limits.farewell_seconds, self._hang_up, reason
            )
        else:
            self._hang_up(reason)

    def _hang_up(self, reason: str) -> None:
        """Disconnect; unlike asyncssh's `disconnect`, sending first what is still to be sent."""
        transport = self.socket_transport
        if transport is None or transport.is_closing():
            return
        self.send_goodbye(reason)
        transport.close()
        self._stop_farewell_timer()
        self._farewell_timer = self.event_loop.call_later(
            self.limits.farewell_seconds, self.force_close, None
        )

    def remove_channel(self, recv_chan: int) -> None:
        """Hang up after the last channel of one who is leaving."""
        super().remove_channel(recv_chan)
        if self.leaving and not self.channels_open:
            self.event_loop.call_soon(self._hang_up, "goodbye")

    def _stop_farewell_timer(self) -> None:
        if self._farewell_timer:
            self._farewell_timer.cancel()
            self._farewell_timer = None

    def connection_lost(self, exc: Exception | None = None) -> None:
        """End; without an error if we meant to."""
        if self.leaving:
            self.force_close(None)
        else:
            super().connection_lost(exc)

    def on_cleanup(self) -> None:
        """Stop the timers."""
        self._stop_kex_timer()
        self._stop_farewell_timer()
