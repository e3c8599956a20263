"""Guard of requests: deny by default, trust a key only after it has signed.

Channels are sessions, and connections that the world lets a client forward. A request that is not
allowed here is refused; the connection stays open.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import asyncssh
from asyncssh.connection import SSHServerConnectionOptions
from asyncssh.packet import SSHPacket

from sshwarma.ssh.transport.admission import AdmissionLimits, AdmissionTicket
from sshwarma.ssh.transport.channel import ForwardedChannel
from sshwarma.ssh.transport.connection import LeanConnection

ALLOWED_CHANNEL_TYPES = frozenset({b"session", b"direct-tcpip"})
ALLOWED_GLOBAL_REQUESTS = frozenset({b"keepalive@openssh.com"})
PROVE_HOST_KEYS = b"hostkeys-prove-00@openssh.com"
"""A client asks for signatures of the announced host keys. Once: they cost processor time."""

MIN_PACKET_BYTES = 256
"""Minimum packet size accepted; with smaller packets one line costs dozens of them."""


class ConnectionOwner(asyncssh.SSHServer, ABC):
    """The owner of a guarded connection, which receives its authentication events."""

    ticket: AdmissionTicket

    @abstractmethod
    def auth_requested(self) -> None:
        """Handle an authentication request; the proof of earlier ones becomes void.

        Raises:
            asyncssh.DisconnectError: if there were too many.
        """

    @abstractmethod
    def on_key_rejected(self) -> None:
        """Handle a refused key or an invalid signature.

        Raises:
            asyncssh.DisconnectError: if there were too many.
        """

    @abstractmethod
    def on_key_verified(self, username: str, key_data: bytes) -> None:
        """Handle a verified signature by this key for this connection."""

    @abstractmethod
    def forward_requested(self, host: str, port: int) -> object:
        """Return what waits for the session of a connection that the client forwards.

        Raises:
            asyncssh.ChannelOpenError: to refuse it.
        """

    @abstractmethod
    def on_crash(self, error: BaseException | None) -> None:
        """Handle a failure of our own code on this connection."""


class GuardedConnection(LeanConnection):
    """A LeanConnection that refuses most requests and verifies that a key has signed."""

    def __init__(
        self, options: SSHServerConnectionOptions, owner: ConnectionOwner, limits: AdmissionLimits
    ) -> None:
        super().__init__(options, owner, limits)
        self._client = owner
        self._may_prove = bool(options.all_server_host_keys)

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Record that the client has sent data."""
        self._client.ticket.has_sent_bytes = True
        super().data_received(data, datatype)

    async def reload_config(self) -> None:
        """Do nothing: no option depends on the user; asyncssh's takes a thread and 1 ms."""

    def on_auth_request(self) -> None:
        """Discard the proof of an earlier request before processing a new one."""
        self._client.auth_requested()

    async def validate_public_key(
        self, username: str, key_data: bytes, msg: bytes, signature: bytes
    ) -> bool:
        """Verify a key and report it to the owner only if it has signed.

        A client may query one key and sign with another, in any order. No await separates this
        from `auth_completed`, so the key verified here is the one that completes.
        """
        sha1 = bool(msg) and SSHPacket(signature).get_string() == b"ssh-rsa"
        valid = not sha1 and await super().validate_public_key(username, key_data, msg, signature)
        if not valid:
            self._client.on_key_rejected()
        elif msg:
            self._client.on_key_verified(username, key_data)
        return valid

    def accepts_channel(self, kind: bytes, max_packet_bytes: int) -> bool:
        """Accept allowed channel types with a large enough packet size."""
        return kind in ALLOWED_CHANNEL_TYPES and max_packet_bytes >= MIN_PACKET_BYTES

    def open_forward(self, host: str, port: int) -> tuple[ForwardedChannel, object]:
        """Let the owner decide about a connection that the client forwards."""
        session = self._client.forward_requested(host, port)
        return self.create_forwarded_channel(), session

    def accepts_global_request(self, kind: bytes) -> bool:
        """Accept allowed requests only."""
        if kind == PROVE_HOST_KEYS and self._may_prove:
            self._may_prove = False
            return True
        return kind in ALLOWED_GLOBAL_REQUESTS

    def internal_error(self, exc_info: Any = None, error_logger: Any = None) -> None:
        """End this connection, and no other, after a failure of our own code on it."""
        exc_info = exc_info or sys.exc_info()
        self._client.on_crash(exc_info[1])
        super().internal_error(exc_info, error_logger)
