"""The ssh server: listens, refuses connections over limits, counts the others.

guard.py, client_connection.py and session.py decide what a connection may do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import asyncssh
from asyncssh.connection import SSHServerConnectionOptions

from sshwarma.common.networks import is_in_networks, parse_address
from sshwarma.ssh.transport.admission import (
    Admission,
    AdmissionCounters,
    AdmissionLimits,
    AdmissionRefused,
    LogThrottle,
)
from sshwarma.ssh.transport.client_connection import ClientConnection
from sshwarma.ssh.transport.guard import GuardedConnection
from sshwarma.ssh.transport.interfaces import (
    Authenticator,
    ClientLink,
    FailedLogin,
    HandlerFactory,
    Peer,
)
from sshwarma.ssh.transport.proxied import NO_HEADER, PendingHeader, ProxiedConnections
from sshwarma.ssh.transport.proxy_header import ProxyHeader
from sshwarma.ssh.transport.refusal import VERSION, RefusedConnections

KEX_ALGORITHMS = "mlkem768x25519*,curve25519*"
"""Every client that knows our kind of host key, ed25519, knows one of them; finite-field groups
cost up to 50 times as much (decision 027)."""

MAC_ALGORITHMS = "hmac-sha2-256-etm@openssh.com,hmac-sha2-256"
"""For clients without AES-GCM. Dropbear knows neither GCM, as it is built, nor the first."""

TOO_MANY = "too many connections; try again soon"
REFUSALS = {
    "failures": "too many logins from your address have failed; try again in a minute",
    "connections_per_address": "too many connections from your address; close some",
    "pending_per_address": "too many connections from your address are logging in; try again soon",
}
"""What a refused client reads, by the reason."""

ACCEPT_BACKLOG = 256
"""asyncio accepts up to this many connections in one turn of the loop, so it bounds that turn."""


class Acceptor(asyncio.Protocol):
    """The protocol of a new socket until it is refused, or it is known who connects."""

    def __init__(self, server: SshServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket, or read from a balancer whose it is."""
        transport = cast("asyncio.Transport", transport)
        server, peername = self._server, transport.get_extra_info("peername")
        if not peername:  # the client has disconnected already
            transport.abort()
        elif is_in_networks(peername[0], server.limits.proxy_from):
            server.proxied.wait_for_header(transport, *peername[:2])
        else:
            server.take(transport, *peername[:2])


class SshServer:
    """A listening ssh server and its connections; made by `start_ssh_server`.

    Attributes:
        closed_for: why no new connection is taken, a sentence for its client; "" if they are.
    """

    def __init__(
        self, authenticator: Authenticator, sessions: HandlerFactory, limits: AdmissionLimits
    ) -> None:
        self.authenticator = authenticator
        self.sessions = sessions
        self.limits = limits
        self.admission = Admission(limits)
        self.counters = AdmissionCounters()
        self.refused = RefusedConnections()
        self.proxied = ProxiedConnections(self, limits.max_pending, limits.login_seconds)
        self.closed_for = ""
        self._log = LogThrottle(limits.log_window_seconds)
        self._clients: dict[ClientConnection, None] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._listener: asyncio.Server
        self._options: SSHServerConnectionOptions
        self._port = 0

    @property
    def port(self) -> int:
        """The listening port, also if port 0 was requested, and after the end."""
        return self._port

    @property
    def connections(self) -> int:
        """Number of open connections, authenticated or not."""
        return len(self._clients)

    @property
    def clients(self) -> Sequence[ClientLink]:
        """The admitted connections, oldest first."""
        return [client for client in self._clients if client.entered and not client.closed]

    def stop_accepting(self) -> None:
        """Accept no new connections; open ones stay."""
        self._listener.close()

    async def drain(self, reason: str, seconds: float = 5.0) -> None:
        """Close all connections with a reason and return when all have ended.

        New connections are refused. A connection still open after `seconds` is dropped.
        """
        self.stop_accepting()
        for client in list(self._clients):
            client.close(reason)
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            pass
        await self.close()

    async def close(self) -> None:
        """Drop all connections without a message and return when all have ended."""
        self.stop_accepting()
        self.refused.close()
        self.proxied.close()
        for client in list(self._clients):
            client.abort()
        await self._empty.wait()
        await asyncio.sleep(0)  # asyncio closes an aborted socket one turn later

    async def set_host_keys(self, host_keys: Sequence[asyncssh.SSHKey]) -> None:
        """Use these host keys for new connections: the first, and announce the others."""
        self._options = await _make_options(host_keys, self.limits)

    async def open_listener(self, host: str, port: int) -> None:
        """Listen at an address. Called once, by `start_ssh_server`.

        Raises:
            OSError: if the server cannot listen at the address.
        """
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: Acceptor(self), host, port, backlog=ACCEPT_BACKLOG
        )
        self._port = int(self._listener.sockets[0].getsockname()[1])

    # New connections

    def take(
        self,
        transport: asyncio.Transport,
        address: str,
        port: int,
        received: bytes = b"",
        *,
        is_of_balancer: bool = False,
    ) -> None:
        """Refuse a new connection, or make it a GuardedConnection.

        Args:
            transport: its socket.
            address: of its client, as `port` is.
            port: see `address`.
            received: what has come from the client already.
            is_of_balancer: whether it connects for itself, as a check of the first version does.
        """
        try:
            if self.closed_for:
                raise AdmissionRefused("closed")
            ticket = self.admission.admit(address, lambda: self.make_room(transport, address))
        except AdmissionRefused as error:
            self.refuse(error.reason, address)
            sentence = self.closed_for or REFUSALS.get(error.reason, TOO_MANY)
            self.refused.refuse(transport, sentence)
            return
        client = ClientConnection(self, ticket, address, port, is_of_balancer=is_of_balancer)
        self.counters.accepted += 1
        self._clients[client] = None
        self._empty.clear()
        connection = GuardedConnection(self._options, client, self.limits)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if received:
            connection.data_received(received)

    def on_header(self, pending: PendingHeader, header: ProxyHeader, rest: bytes) -> None:
        """Take a connection for whom a balancer names, or answer its check.

        One without an address of its own counts as the balancer's.
        """
        address, port = header.source or (pending.address, pending.port)
        is_own = parse_address(address) == parse_address(pending.address)
        if self.closed_for and (header.is_local or is_own):
            pending.transport.abort()  # without a banner the check fails
        elif header.is_local:
            self.refused.greet(pending.transport)
        else:
            self.take(pending.transport, address, port, rest, is_of_balancer=is_own)

    def on_no_header(self, pending: PendingHeader, problem: str, *, is_ssh: bool) -> None:
        """Count and log a connection from a balancer without a valid header; end it."""
        self.counters.refused["proxy_header"] += 1
        self._log.note("ssh.no_proxy_header", problem, address=pending.address)
        if is_ssh:
            self.refused.refuse(pending.transport, NO_HEADER)
        else:
            pending.transport.abort()

    # Reports from the connections

    def remove_client(self, client: ClientConnection) -> None:
        """Remove a connection that has ended."""
        self.admission.leave(client.ticket)
        self._clients.pop(client, None)
        if not self._clients:
            self._empty.set()

    def refuse(self, reason: str, address: str) -> None:
        """Count and log a refused connection."""
        self.counters.refused[reason] += 1
        self._log.note("ssh.refused", reason, address=address)

    def make_room(self, transport: asyncio.Transport, address: str) -> None:
        """Drop a silent or slow connection to free its slot for a new one."""
        self.refuse("made_room", address)
        transport.abort()

    def auth_failed(
        self, client: ClientConnection, reason: str, tries: int, error: Exception | None
    ) -> None:
        """Count and log a connection that tried to authenticate and failed.

        `error` is a fault of the connection, if there was one.
        """
        self.counters.auth_failed += 1
        self.admission.count_failure(client.ticket)
        if tries:
            self.authenticator.failed(
                FailedLogin(
                    client.address,
                    client.last_key,
                    tries,
                    "no key was accepted",
                    client.offered_keys,
                    client.username,
                )
            )
        self._log.note(
            "ssh.auth_failed",
            reason,
            address=client.address,
            name=client.username,
            tries=tries,
            fingerprint=client.last_key,
            **({"error": str(error)} if error is not None else {}),
        )

    def on_crash(self, error: BaseException | None, peer: Peer | None) -> None:
        """Count and log a failure of our own code on one connection."""
        self.counters.crashed += 1
        self._log.note("ssh.crashed", type(error).__name__, peer=peer, exc_info=error)


async def start_ssh_server(
    host: str,
    port: int,
    *,
    host_keys: Sequence[asyncssh.SSHKey],
    authenticator: Authenticator,
    sessions: HandlerFactory,
    limits: AdmissionLimits | None = None,
) -> SshServer:
    """Listen at `host` and `port` (0 picks one) and serve until `drain` or `close`.

    The first of the `host_keys` is used, the others are announced.

    Raises:
        OSError: if the server cannot listen at the address.
    """
    server = SshServer(authenticator, sessions, limits or AdmissionLimits())
    await server.set_host_keys(host_keys)
    await server.open_listener(host, port)
    return server


async def _make_options(
    host_keys: Sequence[asyncssh.SSHKey], limits: AdmissionLimits
) -> SSHServerConnectionOptions:
    """Return the options of new connections."""
    options: SSHServerConnectionOptions = await SSHServerConnectionOptions.construct(
        server_host_keys=list(host_keys),
        send_server_host_keys=len(host_keys) > 1,
        server_version=VERSION,
        kex_algs=KEX_ALGORITHMS,
        encryption_algs="aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes256-ctr,aes128-ctr",
        mac_algs=MAC_ALGORITHMS,
        compression_algs=None,
        public_key_auth=True,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
        x509_trusted_certs=None,
        agent_forwarding=False,
        encoding=None,
        line_editor=False,
        window=limits.receive_window_bytes,
        login_timeout=limits.login_seconds,
        keepalive_interval=limits.keepalive_seconds,
        keepalive_count_max=limits.max_keepalive_misses - 1,
    )
    return options
