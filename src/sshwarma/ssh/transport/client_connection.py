"""Client connection from accept to close: authentication, admission, channels.

A public key is the only way to log in. The identity is bound in one place, to the key that signed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any, NoReturn, Protocol, cast

import asyncssh
from asyncssh.connection import SSHServerConnection
from asyncssh.constants import (
    DISC_BY_APPLICATION,
    OPEN_ADMINISTRATIVELY_PROHIBITED,
    OPEN_CONNECT_FAILED,
    OPEN_RESOURCE_SHORTAGE,
)

from sshwarma.common.public_key import is_acceptable_key
from sshwarma.common.refusals import count_refusal
from sshwarma.ssh.transport.admission import (
    Admission,
    AdmissionCounters,
    AdmissionLimits,
    AdmissionTicket,
)
from sshwarma.ssh.transport.channel import ForwardedChannel, LeanChannel
from sshwarma.ssh.transport.guard import ConnectionOwner, GuardedConnection
from sshwarma.ssh.transport.interfaces import (
    Authenticator,
    FailedLogin,
    HandlerFactory,
    Peer,
    Rejected,
)
from sshwarma.ssh.transport.session import ChannelSession

MAX_USERNAME_CHARACTERS = 128
MAX_CLIENT_VERSION_CHARACTERS = 64

NO_TRY = "the connection failed before a key was refused"
REFUSED_KEY = "the key is unknown or may not log in"
WRONG_SIGNATURE = "the signature by the key is not valid"


class ConnectionServer(Protocol):
    """The interface of `SshServer` that its connections use."""

    authenticator: Authenticator
    sessions: HandlerFactory
    limits: AdmissionLimits
    admission: Admission
    counters: AdmissionCounters

    def remove_client(self, client: ClientConnection) -> None:
        """Remove a connection that has ended."""

    def refuse(self, reason: str, address: str) -> None:
        """Count and log a refused connection."""

    def auth_failed(
        self, client: ClientConnection, reason: str, tries: int, error: Exception | None
    ) -> None:
        """Count and log a connection that tried to authenticate and failed.

        `error` is a fault of the connection, if there was one.
        """

    def on_crash(self, error: BaseException | None, peer: Peer | None) -> None:
        """Count and log a failure of our own code on one connection."""


class ClientConnection(ConnectionOwner):
    """One connection from accept to close; once admitted, the world's `ClientLink`.

    `is_of_balancer` is whether a balancer connects for itself, which may be a check: one that goes
    before it has tried a key has not failed.
    """

    def __init__(
        self,
        server: ConnectionServer,
        ticket: AdmissionTicket,
        address: str,
        port: int,
        *,
        is_of_balancer: bool = False,
    ) -> None:
        self.server = server
        self.ticket = ticket
        self.address = address
        self.port = port
        self._is_of_balancer = is_of_balancer
        self._conn: GuardedConnection
        self._running: dict[LeanChannel, None] = {}
        self._peer: Peer | None = None
        self._identity: object = None
        self._entered_at: float | None = None
        self.entered = False
        self._settled = asyncio.Event()  # entered, or never will
        self._entering: asyncio.Task[None] | None = None
        self._requests = 0
        self._failures = 0
        self._proof: tuple[str, bytes] | None = None
        self._last_key = ""
        self._is_acceptable = True  # the last key: of one that was not asked about, its signature
        self._failure = NO_TRY
        self.username = ""  # as the client sent it last, which proves nothing
        self._offered: dict[str, None] = {}  # at most `max_auth_requests`

    # interfaces.ClientLink

    @property
    def peer(self) -> Peer:
        """The authenticated peer."""
        if self._peer is None:
            raise RuntimeError("not authenticated")
        return self._peer

    @property
    def identity(self) -> object:
        """The identity that the authenticator returned."""
        return self._identity

    @property
    def channels(self) -> Collection[LeanChannel]:
        """The channels that run a handler."""
        return tuple(self._running)

    @property
    def last_key(self) -> str:
        """Fingerprint of the key that the client has offered last; "" without one."""
        return self._last_key

    @property
    def offered_keys(self) -> tuple[str, ...]:
        """Fingerprints of the keys that the client has offered, in their order."""
        return tuple(self._offered)

    @property
    def closed(self) -> bool:
        """Whether the connection has ended or is ending."""
        return self._conn.leaving or self._conn.is_closed()

    def close(self, reason: str) -> None:
        """Disconnect after sending buffered data and the reason."""
        self._conn.close_gracefully(reason)

    def abort(self) -> None:
        """Drop the connection without a message."""
        self._conn.abort()

    # Authentication

    def connection_made(self, conn: SSHServerConnection) -> None:
        """Store the connection."""
        self._conn = cast("GuardedConnection", conn)

    def begin_auth(self, username: str) -> bool:
        """Require authentication for every user name."""
        return True

    def public_key_auth_supported(self) -> bool:
        """Allow public keys, the only method."""
        return True

    def auth_requested(self) -> None:
        """Count an authentication request and discard the proof of earlier ones.

        Raises:
            asyncssh.DisconnectError: if there were too many.
        """
        self._proof = None
        self._requests += 1
        if self._requests > self.server.limits.max_auth_requests:
            raise asyncssh.DisconnectError(DISC_BY_APPLICATION, "too many requests")

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Return whether a signature by this key should be checked; it proves nothing."""
        self._last_key = key.get_fingerprint()
        self._offered[self._last_key] = None
        self.username = username[:MAX_USERNAME_CHARACTERS]
        self._is_acceptable = is_acceptable_key(key) and self.server.authenticator.is_acceptable(
            self.username, self._last_key
        )
        return self._is_acceptable

    def on_key_rejected(self) -> None:
        """Count a refused key or invalid signature.

        Raises:
            asyncssh.DisconnectError: if there were too many.
        """
        self._failures += 1
        self._failure = WRONG_SIGNATURE if self._is_acceptable else REFUSED_KEY
        if self._failures >= self.server.limits.max_refused_keys:
            raise asyncssh.DisconnectError(DISC_BY_APPLICATION, "too many keys tried")

    def on_key_verified(self, username: str, key_data: bytes) -> None:
        """Store the key whose signature was just verified for this connection."""
        self._proof = (username, key_data)

    def auth_completed(self) -> None:
        """Bind the identity to the key that signed; no other code does.

        Raises:
            asyncssh.PermissionDenied: if no key has signed.
        """
        if self._proof is None:
            raise asyncssh.PermissionDenied("no key has signed")
        username, key_data = self._proof
        key = asyncssh.public_key.decode_ssh_public_key(key_data)
        self._peer = Peer(
            address=self.address,
            port=self.port,
            username=username[:MAX_USERNAME_CHARACTERS],
            fingerprint=key.get_fingerprint(),
            public_key=key.export_public_key("openssh").decode("ascii").strip(),
            client=_sanitize_version(self._conn.get_extra_info("client_version", "")),
        )
        self._entering = self._conn.create_task(self._enter(self._peer))

    async def _enter(self, peer: Peer) -> None:
        server = self.server
        try:
            server.admission.promote(self.ticket, peer.fingerprint)
            async with asyncio.timeout(server.limits.enter_seconds):
                self._identity = await server.authenticator.enter(peer)
        except Rejected as error:
            server.refuse("not_admitted", peer.address)
            server.authenticator.failed(
                FailedLogin(peer.address, peer.fingerprint, 1, error.reason, username=peer.username)
            )
            self._conn.close_gracefully(error.reason)
        except TimeoutError:
            server.refuse("admit_timeout", peer.address)
            limit = server.limits.enter_seconds
            self._conn.close_gracefully(f"login timed out after {limit:g} s; try again soon")
        else:
            self.entered = not self.closed
            self._entered_at = time.monotonic()
            server.counters.authenticated += 1
            self._settled.set()

    def on_crash(self, error: BaseException | None) -> None:
        """Log a failure of our own code on this connection.

        Before login a ValueError is the peer's fault: bytes that cannot be decoded.
        """
        if self._peer or not isinstance(error, ValueError):
            self.server.on_crash(error, self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection's slot and report a failed authentication."""
        self._settled.set()
        if self._entering:
            self._entering.cancel()
        garbage = exc is not None and not isinstance(exc, asyncssh.ConnectionLost)
        garbage = garbage and not self._is_of_balancer
        if self._peer is None and (self._failures or garbage):
            fault = exc if garbage else None  # after a refusal, clients just go
            self.server.auth_failed(self, self._failure, self._failures, fault)
        if self._peer is not None and self._entered_at is not None:
            seconds = time.monotonic() - self._entered_at
            self.server.authenticator.left(self._peer, self._identity, seconds)
        self.server.remove_client(self)

    # Channels

    def session_requested(self) -> Any:
        """Open a channel, whose session waits until the peer is admitted.

        Raises:
            asyncssh.ChannelOpenError: if too many channels are open.
        """
        self._check_channels()
        return self._make_session()

    def forward_requested(self, host: str, port: int) -> object:
        """Open a channel for a connection that the client forwards, as for a session.

        Raises:
            asyncssh.ChannelOpenError: if too many channels are open.
        """
        limits = self.server.limits
        forwards = self._count_forwards()
        is_full = self._conn.channels_open >= limits.max_channels + limits.max_forwards
        if forwards >= limits.max_forwards or is_full:
            self._refuse_channel(limits.max_forwards)
        return self._make_forward(host, port)

    def _count_forwards(self) -> int:
        return sum(isinstance(channel, ForwardedChannel) for channel in self._running)

    def _check_channels(self) -> None:
        most = self.server.limits.max_channels
        if self._conn.channels_open - self._count_forwards() >= most:
            self._refuse_channel(most)

    def _refuse_channel(self, most: int) -> NoReturn:
        count_refusal("ssh_channels")
        raise asyncssh.ChannelOpenError(OPEN_RESOURCE_SHORTAGE, f"at most {most} channels")

    async def _make_session(self) -> ChannelSession:
        await self._settled.wait()
        if not self.entered or self.closed:
            raise asyncssh.ChannelOpenError(OPEN_CONNECT_FAILED, "not admitted")
        return ChannelSession(self, self.server.sessions, self.server.limits)

    async def _make_forward(self, host: str, port: int) -> ChannelSession:
        session = await self._make_session()
        try:
            session.forward(host, port)
        except Rejected as error:
            code = OPEN_ADMINISTRATIVELY_PROHIBITED
            raise asyncssh.ChannelOpenError(code, error.reason) from error
        return session

    def on_channel_opened(self, channel: LeanChannel) -> None:
        """Record that a handler runs in this channel."""
        self._running[channel] = None

    def on_channel_closed(self, channel: LeanChannel) -> None:
        """Record that the channel's handler has ended."""
        self._running.pop(channel, None)


def _sanitize_version(version: str) -> str:
    """Return the client's version string, printable ASCII only."""
    plain = "".join(char for char in version if " " <= char <= "~")
    return plain.removeprefix("SSH-2.0-")[:MAX_CLIENT_VERSION_CHARACTERS]
