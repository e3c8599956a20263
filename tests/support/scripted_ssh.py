"""A client that sends exactly what a test wrote, in that order, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncssh
from asyncssh.connection import SSHClientConnection, SSHClientConnectionOptions
from asyncssh.constants import MSG_USERAUTH_REQUEST
from asyncssh.packet import Boolean, String

from sshwarma.ssh.transport.server import SshServer
from support.ssh_server import within


class AcceptAnything:
    """Stands where asyncssh keeps its running authentication, and accepts any answer."""

    def __init__(self) -> None:
        self.accepted = 0

    def process_packet(self, *_: Any) -> bool:
        self.accepted += 1
        return True

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Scripted(SSHClientConnection):
    """Sends scripted authentication requests back to back, after key exchange."""

    script: Callable[[], object]
    refusals = 0
    _answers: AcceptAnything | None = None

    @property
    def answered(self) -> int:
        """Requests the server has answered without letting us in."""
        return self.refusals + (self._answers.accepted if self._answers else 0)

    @property
    def let_in(self) -> bool:
        return bool(self._auth_complete)

    def try_next_auth(self, *, next_method: bool = False) -> None:
        if self._answers is None:
            self._answers = AcceptAnything()
            self._auth = self._answers  # type: ignore[assignment]  # a stand-in
            self.script()
        else:
            self.refusals += 1

    def ask(self, username: str, key: asyncssh.SSHKey) -> None:
        """Offer a public key without a signature."""
        self._offer(username, key, signer=None)

    def sign(
        self, username: str, key: asyncssh.SSHKey, signer: asyncssh.SSHKey | None = None
    ) -> None:
        """Offer a public key with a signature: its own, or another's."""
        self._offer(username, key, signer=signer or key)

    def _offer(self, username: str, key: asyncssh.SSHKey, signer: asyncssh.SSHKey | None) -> None:
        self._username = username
        fields = (Boolean(signer is not None), String(key.algorithm), String(key.public_data))
        request = self._get_userauth_request_packet(b"publickey", fields)
        if signer:
            signed = self.get_userauth_request_data(b"publickey", *fields)
            request += String(signer.sign(signed, signer.algorithm))
        self.send_packet(MSG_USERAUTH_REQUEST, request[1:])

    def claim(self, username: str, method: bytes, *fields: bytes) -> None:
        """Ask to be let in by another method."""
        self._username = username
        request = self._get_userauth_request_packet(method, fields)
        self.send_packet(MSG_USERAUTH_REQUEST, request[1:])


async def scripted(server: SshServer, script: Callable[[Scripted], object]) -> Scripted:
    """Connect and run the script; the caller waits for what should follow."""
    loop = asyncio.get_running_loop()
    options = await SSHClientConnectionOptions.construct(
        username="nobody", known_hosts=None, client_keys=None, host="127.0.0.1"
    )

    def make() -> Scripted:
        connection = Scripted(loop, options)
        connection.script = lambda: script(connection)
        return connection

    _, connection = await within(loop.create_connection(make, "127.0.0.1", server.port))
    return connection
