"""asyncssh's connection with a fast send path and bounded buffers.

Fast: `AsyncsshConnection` has a fast path for packets. It needs AES-GCM, so OpenSSH clients are
offered nothing else.

Bounded, because a peer may stop reading at any moment: channel data then waits in its channel,
deferred replies are counted, and no input is read while replies to earlier input are unread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncssh
from asyncssh.connection import SSHServerConnectionOptions

from sshwarma.common.rate_limit import TokenBucket
from sshwarma.common.units import KIB
from sshwarma.ssh.transport._asyncssh import AsyncsshConnection
from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.channel import ForwardedChannel, LeanChannel
from sshwarma.ssh.transport.cipher import CTR_CIPHERS, GCM_CIPHERS

MAX_UNREAD_REPLY_BYTES = 256 * KIB
"""Unread bytes, channel data aside, above which no more input is read from the peer."""


class LeanConnection(AsyncsshConnection):
    """One client's connection with a fast send path and bounded buffers."""

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
            limits.max_rekeys_per_second, limits.max_rekey_burst, self.event_loop.time
        )
        self._kex_timer: asyncio.TimerHandle | None = None
        self._farewell_timer: asyncio.TimerHandle | None = None

    # A peer that does not read

    def pause_writing(self) -> None:
        """Hold channel data back because asyncio's own buffer is full."""
        self.congested = True

    def resume_writing(self) -> None:
        """Send channel data and read input again."""
        self.congested = False
        transport = self.socket_transport
        if transport:
            transport.resume_reading()
        self.flush_channels()

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Process input; stop reading while the peer does not read our replies."""
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
        """Offer GCM; offer CTR too to clients other than OpenSSH, which may lack GCM."""
        return (
            GCM_CIPHERS
            if client_version.startswith(b"SSH-2.0-OpenSSH_")
            else GCM_CIPHERS + CTR_CIPHERS
        )

    def on_key_exchange_begun(self) -> None:
        """Start the timeout of a key exchange after the first."""
        if self.is_authenticated and self._kex_timer is None:
            self._kex_timer = self.event_loop.call_later(
                self.limits.rekey_timeout_seconds,
                self.connection_lost,
                asyncssh.ConnectionLost("Key exchange not finished"),
            )

    async def before_key_exchange(self) -> None:
        """Delay a client that requests key exchanges too often."""
        wait = self._rekeys.take()
        if wait > 0 and self.socket_transport:
            self.socket_transport.pause_reading()
            await asyncio.sleep(wait)
            if self.socket_transport:
                self.socket_transport.resume_reading()

    def on_key_exchange_done(self) -> None:
        """Cancel the timeout of the key exchange."""
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
        """Make a LeanChannel: raw bytes, no line editor, whatever the caller requests."""
        own_window, own_pktsize = self.receive_sizes
        return LeanChannel(
            self,
            self.limits,
            self.close_gracefully,
            window or own_window,
            max_pktsize or own_pktsize,
        )

    def create_forwarded_channel(self) -> ForwardedChannel:
        """Make the channel of a connection that the client forwards."""
        return ForwardedChannel(self, self.limits, self.close_gracefully, *self.receive_sizes)

    # Ending

    def close_gracefully(self, reason: str) -> None:
        """Send buffered data and a reason that the person sees, then end the connection.

        A client that receives MSG_DISCONNECT drops output it has not shown yet. So the reason goes
        to each channel's standard error, and the client gets `farewell_seconds` to hang up itself.
        """
        if self.leaving or self.socket_transport is None:
            return
        self.leaving = True
        # A reason may quote what another person typed.
        printable = "".join(character if character.isprintable() else "?" for character in reason)
        channels = [channel for channel in self.open_channels if not channel.is_closing()]
        for channel in channels:
            channel.write_stderr(f"{printable}\r\n".encode())
            channel.close()
        if channels:
            self._farewell_timer = self.event_loop.call_later(
                self.limits.farewell_seconds, self._hang_up, reason
            )
        else:
            self._hang_up(reason)

    def _hang_up(self, reason: str) -> None:
        """Disconnect after sending buffered data, unlike asyncssh's `disconnect`."""
        transport = self.socket_transport
        if transport is None or transport.is_closing():
            return
        self.send_goodbye(reason)
        self.flush_replies()
        transport.close()
        self._stop_farewell_timer()
        self._farewell_timer = self.event_loop.call_later(
            self.limits.farewell_seconds, self.force_close, None
        )

    def remove_channel(self, recv_chan: int) -> None:
        """Remove a channel; after the last one of a leaving client, hang up."""
        super().remove_channel(recv_chan)
        if self.leaving and not self.channels_open:
            self.event_loop.call_soon(self._hang_up, "goodbye")

    def _stop_farewell_timer(self) -> None:
        if self._farewell_timer:
            self._farewell_timer.cancel()
            self._farewell_timer = None

    def connection_lost(self, exc: Exception | None = None) -> None:
        """End the connection; without an error if it was leaving."""
        if self.leaving:
            self.force_close(None)
        else:
            super().connection_lost(exc)

    def on_cleanup(self) -> None:
        """Stop the timers."""
        self._stop_kex_timer()
        self._stop_farewell_timer()
