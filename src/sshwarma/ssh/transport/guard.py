"""What a connection may be asked: deny by default, and a key is believed once it has signed.

A session is the only channel, and whatever is not named here as answered is refused while the
connection lives on.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import asyncssh
from asyncssh.connection import SSHServerConnectionOptions
from asyncssh.packet import SSHPacket

from sshwarma.ssh.transport.admission import AdmissionLimits, AdmissionTicket
from sshwarma.ssh.transport.connection import LeanConnection

ALLOWED_CHANNEL_TYPES = frozenset({b"session"})
ALLOWED_GLOBAL_REQUESTS = frozenset({b"keepalive@openssh.com"})

MIN_PACKET_BYTES = 256
"""A client that takes less per packet makes one line cost dozens of them."""


class ConnectionOwner(asyncssh.SSHServer, ABC):
    """What a guarded connection tells the one that answers for it."""

    ticket: AdmissionTicket

    @abstractmethod
    def auth_requested(self) -> None:
        """A new request, of any kind and perhaps under a new name: earlier proof is void.

        Raises:
            asyncssh.DisconnectError: if there were too many.
        """

    @abstractmethod
    def key_failed(self) -> None:
        """A key was refused, or its signature was false.

        Raises:
            asyncssh.DisconnectError: if too many were.
        """

    @abstractmethod
    def proved(self, username: str, key_data: bytes) -> None:
        """This key has signed for this connection, just now."""

    @abstractmethod
    def crashed(self, error: BaseException | None) -> None:
        """Our own code has failed on this connection."""


class GuardedConnection(LeanConnection):
    """A lean connection that answers to little, and knows a proof from a claim."""

    def __init__(
        self, options: SSHServerConnectionOptions, owner: ConnectionOwner, limits: AdmissionLimits
    ) -> None:
        super().__init__(options, owner, limits)
        self._visitor = owner

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Note that the client is not one of the silent ones."""
        self._visitor.ticket.spoke = True
        super().data_received(data, datatype)

    async def reload_config(self) -> None:
        """Do nothing: no option depends on the user name, and this took a thread and 1 ms."""

    def on_auth_request(self) -> None:
        """Void what an earlier request proved before looking at a new one."""
        self._visitor.auth_requested()

    async def validate_public_key(
        self, username: str, key_data: bytes, msg: bytes, signature: bytes
    ) -> bool:
        """Tell the owner of a key only when it has signed.

        A client may ask about one key and sign with another, in any order. Nothing suspends
        between here and `auth_completed`, so what is proved here is what completes.
        """
        sha1 = bool(msg) and SSHPacket(signature).get_string() == b"ssh-rsa"
        valid = not sha1 and await super().validate_public_key(username, key_data, msg, signature)
        if not valid:
            self._visitor.key_failed()
        elif msg:
            self._visitor.proved(username, key_data)
        return valid

    def accepts_channel(self, kind: bytes, max_packet_bytes: int) -> bool:
        """Deny by default."""
        return kind in ALLOWED_CHANNEL_TYPES and max_packet_bytes >= MIN_PACKET_BYTES

    def accepts_global_request(self, kind: bytes) -> bool:
        """Deny by default."""
        return kind in ALLOWED_GLOBAL_REQUESTS

    def internal_error(self, exc_info: Any = None, error_logger: Any = None) -> None:
        """End this connection, and no other, when our own code has failed on it."""
        exc_info = exc_info or sys.exc_info()
        self._visitor.crashed(exc_info[1])
        super().internal_error(exc_info, error_logger)
