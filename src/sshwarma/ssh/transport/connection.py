"""The bytes of ssh: asyncssh's connection, made lean and bounded.

Subclasses only; the installed package is never patched. What is touched of asyncssh's private
names, here and in cipher.py, channel.py and guard.py, is listed in
tests/ssh_transport/test_asyncssh_shape.py, which fails when a release moves one.

Lean, because a line said in a room of 200 is 200 packets (benchmarks/transport.py):
- AES-GCM is what OpenSSH clients are offered, in the form cipher.py gives it;
- no MSG_IGNORE goes before each packet: it guards CBC chaining, which GCM does not have;
- a packet of data is sealed and sent at once, by `send_data`, when nothing stands in its way.

Bounded, because a peer may stop reading at any moment: channel data then waits in its channel,
deferred replies are counted, and input is not read while the answers to it go unread.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import asyncssh
from asyncssh.connection import SSHServerConnection, SSHServerConnectionOptions
from asyncssh.constants import DISC_BY_APPLICATION, MSG_KEX_LAST, MSG_KEXINIT
from asyncssh.packet import SSHPacket, SSHPacketLogger

from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.channel import LeanChannel
from sshwarma.ssh.transport.cipher import CTR_CIPHERS, GCM_CIPHERS, CachedGCM, cache_gcm_cipher

MAX_DEFERRED_PACKETS = 1_000
"""Replies held back while keys are exchanged; an honest client asks for none meanwhile."""

MAX_UNREAD_REPLY_BYTES = 256 * 1024
"""Bytes the peer has not read, data aside, beyond which we read nothing more from it."""

# Padding is sealed with the rest; under an AEAD its content tells nobody anything.
_PADDING = tuple(bytes(size) for size in range(32))
_PADDING_SIZE = tuple(bytes((size,)) for size in range(32))


class LeanConnection(SSHServerConnection):
    """One client's connection: lean sending, bounded buffers, and little that it answers to."""

    def __init__(
        self,
        options: SSHServerConnectionOptions,
        owner: asyncssh.SSHServer,
        limits: AdmissionLimits,
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop, options)
        self.limits = limits
        self.leaving = False
        self._protocol_factory = lambda: owner
        self._congested = False
        self._heard = 0.0
        self._rekey_due = 0.0
        self._kex_timer: asyncio.TimerHandle | None = None
        self._farewell_timer: asyncio.TimerHandle | None = None

    # Sending

    @property
    def flowing(self) -> bool:
        """Whether channel data may go out now."""
        return self._kex_complete and not self._congested

    def send_data(self, head: bytes, data: bytes, size: int) -> bool:
        """Seal and send one CHANNEL_DATA packet; False, with nothing done, if it must wait."""
        encryption = self._send_encryption
        if type(encryption) is not CachedGCM or self._congested or not self._may_seal():
            return False
        self._send_sealed(encryption, b"".join((head, size.to_bytes(4, "big"), data)))
        return True

    def send_packet(
        self, pkttype: int, *args: bytes, handler: SSHPacketLogger | None = None
    ) -> None:
        """Send any packet, the short way where there is one."""
        encryption = self._send_encryption
        if pkttype > MSG_KEX_LAST and type(encryption) is CachedGCM and self._may_seal():
            self._send_sealed(encryption, b"".join((bytes((pkttype,)), *args)))
            return
        if len(self._deferred_packets) > MAX_DEFERRED_PACKETS:
            raise asyncssh.ProtocolError("Too many requests during key exchange")
        super().send_packet(pkttype, *args, handler=handler)

    def _may_seal(self) -> bool:
        """Whether this is the plain case: logged in, no key exchange running or due."""
        return (
            self._kex_complete
            and self._auth_complete
            and self._rekey_bytes_sent < self._rekey_bytes
            and self._loop.time() < self._rekey_time
        )

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

    def send_newkeys(self, k: bytes, h: bytes) -> None:
        """Take over the new ciphers, then send what waited for them."""
        super().send_newkeys(k, h)
        self._send_encryption = cache_gcm_cipher(self._send_encryption)
        self._next_recv_encryption = cache_gcm_cipher(self._next_recv_encryption)
        self._stop_kex_timer()
        self._flush_channels()

    def _flush_channels(self) -> None:
        for channel in list(self._channels.values()):
            cast("LeanChannel", channel).flush()

    # A peer that does not read, or does not live

    def pause_writing(self) -> None:
        """Hold channel data back: asyncio's own buffer is full."""
        self._congested = True

    def resume_writing(self) -> None:
        """Let it flow again."""
        self._congested = False
        if self._transport:
            self._transport.resume_reading()
        self._flush_channels()

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Take input, unless our answers to the last of it go unread."""
        super().data_received(data, datatype)
        transport = self._transport
        if (
            self._congested
            and transport
            and not transport.is_closing()
            and transport.get_write_buffer_size() > MAX_UNREAD_REPLY_BYTES
        ):
            transport.pause_reading()

    def _reset_keepalive_timer(self) -> None:
        """Note the time: cheaper than a new timer for every key typed."""
        self._heard = self._loop.time()

    def _keepalive_timer_callback(self) -> None:
        """Ask only after a whole interval of silence."""
        lately = self._heard + self._keepalive_interval - self._loop.time()
        if lately > 0.001:
            self._keepalive_count = 0
            self._keepalive_timer = self._loop.call_later(lately, self._keepalive_timer_callback)
        else:
            super()._keepalive_timer_callback()

    # Key exchange

    def _send_kexinit(self) -> None:
        """Offer CTR only to those who may lack GCM; let no later exchange go unfinished."""
        if not self._session_id:
            openssh = self._client_version.startswith(b"SSH-2.0-OpenSSH_")
            self._enc_algs = [
                name.encode() for name in (GCM_CIPHERS if openssh else GCM_CIPHERS + CTR_CIPHERS)
            ]
        super()._send_kexinit()
        if self._auth_complete and self._kex_timer is None:
            self._kex_timer = self._loop.call_later(
                self.limits.rekey_grace,
                self.connection_lost,
                asyncssh.ConnectionLost("Key exchange not finished"),
            )

    async def _patient_kexinit(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        """Exchange keys, but make a client that asks too often wait."""
        limits, now = self.limits, self._loop.time()
        self._rekey_due = max(self._rekey_due, now) + 1 / limits.rekeys_per_second
        wait = self._rekey_due - now - limits.rekey_burst / limits.rekeys_per_second
        if wait > 0 and self._transport:
            self._transport.pause_reading()
            await asyncio.sleep(wait)
            if self._transport:
                self._transport.resume_reading()
        await self._process_kexinit(pkttype, pktid, packet)

    def _stop_kex_timer(self) -> None:
        if self._kex_timer:
            self._kex_timer.cancel()
            self._kex_timer = None

    # Channels

    @property
    def channels_open(self) -> int:
        """Channels the client has open, whatever they run."""
        return len(self._channels)

    def create_server_channel(
        self,
        encoding: str | None = None,
        errors: str = "strict",
        window: int = 0,
        max_pktsize: int = 0,
    ) -> LeanChannel:
        """Make a lean channel: bytes in, bytes out, no line editor, whatever is asked."""
        limits = self.limits
        sizes = (window or self._window, max_pktsize or self._max_pktsize)
        channel = LeanChannel(self, self._loop, True, False, False, 0, 0, None, "strict", *sizes)
        channel.set_write_buffer_limits(limits.send_buffer_high, limits.send_buffer_low)
        return channel

    # Ending

    def farewell(self, reason: str) -> None:
        """End the connection with a reason the person sees, after all that was written to them.

        A client told to disconnect drops what it has not yet shown, so the reason goes down each
        channel's standard error, and the client is left a moment to hang up by itself.
        """
        if self.leaving or self._transport is None:
            return
        self.leaving = True
        channels = cast("list[LeanChannel]", list(self._channels.values()))
        running = [channel for channel in channels if not channel.is_closing()]
        for channel in running:
            channel.write_stderr(f"{reason}\r\n".encode())
            channel.close()
        if running:
            self._farewell_timer = self._loop.call_later(
                self.limits.farewell_seconds, self._hang_up, reason
            )
        else:
            self._hang_up(reason)

    def _hang_up(self, reason: str) -> None:
        """Disconnect; unlike asyncssh's `disconnect`, sending first what is still to be sent."""
        if self._transport is None or self._transport.is_closing():
            return
        self._send_disconnect(DISC_BY_APPLICATION, reason, "en")
        self._transport.close()
        self._stop_farewell_timer()
        self._farewell_timer = self._loop.call_later(
            self.limits.farewell_seconds, self._force_close, None
        )

    def remove_channel(self, recv_chan: int) -> None:
        """Hang up after the last channel of one who is leaving."""
        super().remove_channel(recv_chan)
        if self.leaving and not self._channels:
            self._loop.call_soon(self._hang_up, "goodbye")

    def _stop_farewell_timer(self) -> None:
        if self._farewell_timer:
            self._farewell_timer.cancel()
            self._farewell_timer = None

    def connection_lost(self, exc: Exception | None = None) -> None:
        """End; without an error if we meant to."""
        if self.leaving:
            self._force_close(None)
        else:
            super().connection_lost(exc)

    def _cleanup(self, exc: Exception | None) -> None:
        self._stop_kex_timer()
        self._stop_farewell_timer()
        super()._cleanup(exc)

    def log_sent_packet(self, *_args: object, **_kwargs: object) -> None:
        """Say nothing, as the channel does."""

    log_received_packet = log_sent_packet

    _packet_handlers: dict[int, Any] = {  # noqa: RUF012 - a table, declared so by asyncssh
        **SSHServerConnection._packet_handlers,
        MSG_KEXINIT: _patient_kexinit,
    }
