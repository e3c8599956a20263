"""What a connection may be asked: deny by default, and a key is believed once it has signed.

A session is the only channel, and whatever is not named here as answered is refused while the
connection lives on.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from asyncssh.connection import SSHServerConnectionOptions
from asyncssh.constants import (
    MSG_CHANNEL_OPEN,
    MSG_GLOBAL_REQUEST,
    MSG_REQUEST_FAILURE,
    OPEN_ADMINISTRATIVELY_PROHIBITED,
)
from asyncssh.packet import SSHPacket

from sshwarma.ssh.transport.admission import AdmissionLimits
from sshwarma.ssh.transport.connection import LeanConnection

if TYPE_CHECKING:
    from sshwarma.ssh.transport.client_connection import ClientConnection

ALLOWED_CHANNEL_TYPES = frozenset({b"session"})
ALLOWED_GLOBAL_REQUESTS = frozenset({b"keepalive@openssh.com"})

MIN_PACKET_BYTES = 256
"""A client that takes less per packet makes one line cost dozens of them."""


class GuardedConnection(LeanConnection):
    """A lean connection that answers to little, and knows a proof from a claim."""

    def __init__(
        self,
        options: SSHServerConnectionOptions,
        visitor: ClientConnection,
        limits: AdmissionLimits,
    ) -> None:
        super().__init__(options, visitor, limits)
        self._visitor = visitor

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Note that the client is not one of the silent ones."""
        self._visitor.ticket.spoke = True
        super().data_received(data, datatype)

    async def reload_config(self) -> None:
        """Do nothing: no option depends on the user name, and this took a thread and 1 ms."""

    async def _finish_userauth(self, begin_auth: bool, method: bytes, packet: SSHPacket) -> None:
        """Void what an earlier request proved before looking at a new one."""
        self._visitor.auth_requested()
        await super()._finish_userauth(begin_auth, method, packet)

    async def validate_public_key(
        self, username: str, key_data: bytes, msg: bytes, signature: bytes
    ) -> bool:
        """Tell the visitor of a key only when it has signed.

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

    def _answer_open(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        ahead = SSHPacket(packet.get_remaining_payload())
        kind, number, _window = ahead.get_string(), ahead.get_uint32(), ahead.get_uint32()
        if kind in ALLOWED_CHANNEL_TYPES and ahead.get_uint32() >= MIN_PACKET_BYTES:
            self._process_channel_open(pkttype, pktid, packet)
        else:
            reason = "only sessions are served here"
            self.send_channel_open_failure(number, OPEN_ADMINISTRATIVELY_PROHIBITED, reason, "en")

    def _answer_global(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        ahead = SSHPacket(packet.get_remaining_payload())
        kind, want_reply = ahead.get_string(), ahead.get_boolean()
        if kind in ALLOWED_GLOBAL_REQUESTS:
            self._process_global_request(pkttype, pktid, packet)
        elif want_reply:
            self.send_packet(MSG_REQUEST_FAILURE)

    def internal_error(self, exc_info: Any = None, error_logger: Any = None) -> None:
        """End this connection, and no other, when our own code has failed on it."""
        exc_info = exc_info or sys.exc_info()
        self._visitor.crashed(exc_info[1])
        super().internal_error(exc_info, error_logger)

    _packet_handlers: dict[int, Any] = {  # noqa: RUF012 - a table, declared so by asyncssh
        **LeanConnection._packet_handlers,
        MSG_CHANNEL_OPEN: _answer_open,
        MSG_GLOBAL_REQUEST: _answer_global,
    }
