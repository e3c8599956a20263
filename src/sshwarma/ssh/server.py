"""The ssh door: who is let through it, what they may ask for, and a listener to stand at it.

Deny by default: a public key is the only way in, a session the only channel, and whatever is not
named here as answered is refused while the connection lives on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import asyncssh
from asyncssh.connection import SSHServerConnection, SSHServerConnectionOptions
from asyncssh.constants import (
    DISC_BY_APPLICATION,
    MSG_CHANNEL_OPEN,
    MSG_GLOBAL_REQUEST,
    MSG_REQUEST_FAILURE,
    OPEN_ADMINISTRATIVELY_PROHIBITED,
    OPEN_CONNECT_FAILED,
    OPEN_RESOURCE_SHORTAGE,
)
from asyncssh.packet import SSHPacket

from sshwarma.ssh.admission import Admission, Counters, Limits, LogWindow, NotAdmitted, Ticket
from sshwarma.ssh.hostkey import acceptable_key
from sshwarma.ssh.ports import Gate, Handler, Link, Peer, Refused, Sessions
from sshwarma.ssh.transport import LeanChannel, LeanConnection

CHANNELS_ANSWERED = frozenset({b"session"})
GLOBALS_ANSWERED = frozenset({b"keepalive@openssh.com"})

SMALLEST_PACKET = 256
"""A client that takes less per packet makes one line cost dozens of them."""

USERNAME_CHARS = 128
CLIENT_CHARS = 64

KEX = "mlkem768x25519*,curve25519*,ecdh-sha2-nistp256,ecdh-sha2-nistp384"
"""All within 10 % of each other; the finite-field groups cost up to 50 times as much."""

BACKLOG = 256
"""asyncio accepts as many as this in one turn of the loop, so it is also a bound on that turn."""


class GuardedConnection(LeanConnection):
    """A lean connection that answers to little, and knows a proof from a claim."""

    def __init__(self, options: SSHServerConnectionOptions, caller: Caller, limits: Limits) -> None:
        super().__init__(options, caller, limits)
        self._caller = caller

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        """Note that the client is not one of the silent ones."""
        self._caller.ticket.spoke = True
        super().data_received(data, datatype)

    async def reload_config(self) -> None:
        """Do nothing: no option depends on the user name, and this took a thread and 1 ms."""

    async def _finish_userauth(self, begin_auth: bool, method: bytes, packet: SSHPacket) -> None:
        """Void what an earlier request proved before looking at a new one."""
        self._caller.auth_requested()
        await super()._finish_userauth(begin_auth, method, packet)

    async def validate_public_key(
        self, username: str, key_data: bytes, msg: bytes, signature: bytes
    ) -> bool:
        """Tell the caller of a key only when it has signed.

        A client may ask about one key and sign with another, in any order. Nothing suspends
        between here and `auth_completed`, so what is proved here is what completes.
        """
        sha1 = bool(msg) and SSHPacket(signature).get_string() == b"ssh-rsa"
        valid = not sha1 and await super().validate_public_key(username, key_data, msg, signature)
        if not valid:
            self._caller.key_failed()
        elif msg:
            self._caller.proved(username, key_data)
        return valid

    def _answer_open(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        ahead = SSHPacket(packet.get_remaining_payload())
        kind, number, _window = ahead.get_string(), ahead.get_uint32(), ahead.get_uint32()
        if kind in CHANNELS_ANSWERED and ahead.get_uint32() >= SMALLEST_PACKET:
            self._process_channel_open(pkttype, pktid, packet)
        else:
            reason = "only sessions are served here"
            self.send_channel_open_failure(number, OPEN_ADMINISTRATIVELY_PROHIBITED, reason, "en")

    def _answer_global(self, pkttype: int, pktid: int, packet: SSHPacket) -> None:
        ahead = SSHPacket(packet.get_remaining_payload())
        kind, want_reply = ahead.get_string(), ahead.get_boolean()
        if kind in GLOBALS_ANSWERED:
            self._process_global_request(pkttype, pktid, packet)
        elif want_reply:
            self.send_packet(MSG_REQUEST_FAILURE)

    def internal_error(self, exc_info: Any = None, error_logger: Any = None) -> None:
        """End this connection, and no other, when our own code has failed on it."""
        exc_info = exc_info or sys.exc_info()
        self._caller.crashed(exc_info[1])
        super().internal_error(exc_info, error_logger)

    _packet_handlers: dict[int, Any] = {  # noqa: RUF012 - a table, declared so by asyncssh
        **LeanConnection._packet_handlers,
        MSG_CHANNEL_OPEN: _answer_open,
        MSG_GLOBAL_REQUEST: _answer_global,
    }


class Caller(asyncssh.SSHServer):
    """One connection from accept to close; once let in, the world's `Link`."""

    def __init__(self, server: Server, ticket: Ticket, address: str, port: int) -> None:
        self.server = server
        self.ticket = ticket
        self.address = address
        self.port = port
        self._conn: GuardedConnection
        self._running: dict[LeanChannel, None] = {}
        self._peer: Peer | None = None
        self._identity: object = None
        self._entered = False
        self._settled = asyncio.Event()  # entered, or never will
        self._entering: asyncio.Task[None] | None = None
        self._requests = 0
        self._failures = 0
        self._proof: tuple[str, bytes] | None = None
        self._last_key = ""

    # ports.Link

    @property
    def peer(self) -> Peer:
        """Who it is."""
        if self._peer is None:
            raise RuntimeError("not authenticated")
        return self._peer

    @property
    def identity(self) -> object:
        """What the gate returned."""
        return self._identity

    @property
    def channels(self) -> Collection[LeanChannel]:
        """Those running a handler."""
        return tuple(self._running)

    @property
    def closed(self) -> bool:
        """Ended, or about to."""
        return self._conn.leaving or self._conn.is_closed()

    def close(self, reason: str) -> None:
        """Disconnect politely."""
        self._conn.farewell(reason)

    def abort(self) -> None:
        """Drop the connection without a word."""
        self._conn.abort()

    # Authentication

    def connection_made(self, conn: SSHServerConnection) -> None:
        """Meet the connection."""
        self._conn = cast("GuardedConnection", conn)

    def begin_auth(self, username: str) -> bool:
        """Nobody comes in without proof, whatever their name."""
        return True

    def public_key_auth_supported(self) -> bool:
        """The only way in."""
        return True

    def auth_requested(self) -> None:
        """A new request, of any kind and perhaps under a new name: earlier proof is void."""
        self._proof = None
        self._requests += 1
        if self._requests > self.server.limits.auth_requests:
            raise asyncssh.DisconnectError(DISC_BY_APPLICATION, "too many requests")

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether a signature by this key is worth checking; proof of nothing."""
        self._last_key = key.get_fingerprint()
        return acceptable_key(key) and self.server.gate.acceptable(
            username[:USERNAME_CHARS], self._last_key
        )

    def key_failed(self) -> None:
        """A key was refused, or its signature was false."""
        self._failures += 1
        if self._failures >= self.server.limits.key_tries:
            raise asyncssh.DisconnectError(DISC_BY_APPLICATION, "too many keys tried")

    def proved(self, username: str, key_data: bytes) -> None:
        """This key has signed for this connection, just now."""
        self._proof = (username, key_data)

    def auth_completed(self) -> None:
        """Bind the identity: here alone, and only to the key that signed."""
        if self._proof is None:
            raise asyncssh.PermissionDenied("no key has signed")
        username, key_data = self._proof
        key = asyncssh.public_key.decode_ssh_public_key(key_data)
        self._peer = Peer(
            address=self.address,
            port=self.port,
            username=username[:USERNAME_CHARS],
            fingerprint=key.get_fingerprint(),
            public_key=key.export_public_key("openssh").decode("ascii").strip(),
            client=_readable(self._conn.get_extra_info("client_version", "")),
        )
        self._entering = self._conn.create_task(self._enter(self._peer))

    async def _enter(self, peer: Peer) -> None:
        server = self.server
        try:
            server.admission.authenticated(self.ticket, peer.fingerprint)
            async with asyncio.timeout(server.limits.enter_seconds):
                self._identity = await server.gate.enter(peer)
        except Refused as no:
            server.refuse("gate", peer.address)
            self._conn.farewell(no.reason)
        except TimeoutError:
            server.refuse("gate_slow", peer.address)
            self._conn.farewell("the world is too busy to let you in; try again soon")
        else:
            self._entered = not self.closed
            server.counters.authenticated += 1
            self._settled.set()

    def crashed(self, error: BaseException | None) -> None:
        """Log a failure of our own code on this connection.

        Before login a ValueError is the peer's doing: bytes that decode to nothing.
        """
        if self._peer or not isinstance(error, ValueError):
            self.server.crashed(error, self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give everything back."""
        self._settled.set()
        if self._entering:
            self._entering.cancel()
        garbage = exc is not None and not isinstance(exc, asyncssh.ConnectionLost)
        if self._peer is None and (self._failures or garbage):
            self.server.auth_failed(self, self._failures, self._last_key, exc)
        self.server.forget(self)

    # Channels

    def session_requested(self) -> Any:
        """Open a channel, if there are not too many; its session waits for the gate."""
        most = self.server.limits.channels
        if self._conn.channels_open >= most:
            raise asyncssh.ChannelOpenError(OPEN_RESOURCE_SHORTAGE, f"at most {most} channels")
        return self._converse()

    async def _converse(self) -> Conversation:
        await self._settled.wait()
        if not self._entered or self.closed:
            raise asyncssh.ChannelOpenError(OPEN_CONNECT_FAILED, "not admitted")
        return Conversation(self, self.server.sessions, self.server.limits)

    def began(self, channel: LeanChannel) -> None:
        """A handler now runs in this channel."""
        self._running[channel] = None

    def ended(self, channel: LeanChannel) -> None:
        """And now no more."""
        self._running.pop(channel, None)


class Conversation(asyncssh.SSHServerSession[bytes]):
    """One channel: turns asyncssh's callbacks into those of a `Handler`."""

    def __init__(self, caller: Caller, sessions: Sessions, limits: Limits) -> None:
        self._caller = caller
        self._sessions = sessions
        self._limits = limits
        self._chan: LeanChannel
        self._begin: Callable[[], Handler] | None = None
        self._handler: Handler | None = None
        self._resizing: asyncio.TimerHandle | None = None

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        """Meet the channel."""
        self._chan = cast("LeanChannel", chan)

    def pty_requested(self, term_type: str, term_size: object, term_modes: object) -> bool:
        """Always granted; the channel keeps type and size."""
        return True

    def shell_requested(self) -> bool:
        """`ssh host`."""
        self._begin = lambda: self._sessions.shell(self._caller, self._chan)
        return True

    def exec_requested(self, command: str) -> bool:
        """`ssh host command`."""
        self._begin = lambda: self._exec(command)
        return True

    def _exec(self, command: str) -> Handler:
        most = self._limits.command_bytes
        if len(command.encode()) > most:
            raise Refused(f"a command is at most {most} bytes; pipe long text in")
        return self._sessions.exec(self._caller, self._chan, command)

    def subsystem_requested(self, subsystem: str) -> bool:
        """`ssh -s host name`: the answer waits for the world's verdict."""
        try:
            handler = self._sessions.subsystem(self._caller, self._chan, subsystem)
        except Refused:
            return False
        if handler is not None:
            self._begin = lambda: handler
        return handler is not None

    def session_started(self) -> None:
        """Start the handler, now that the client knows its request was granted.

        Not earlier: a command that ends at once would close the channel before that answer.
        """
        if self._begin is None:
            return
        try:
            self._handler = self._begin()
        except Refused as no:
            self._chan.write_stderr(f"{no.reason}\r\n".encode())
            self._chan.exit(1)
        else:
            self._caller.began(self._chan)

    def data_received(self, data: bytes, datatype: object) -> None:
        """Hand input on."""
        if self._handler:
            self._handler.data(data)

    def eof_received(self) -> bool:
        """Hand the end of input on; stay open for the answer."""
        if self._handler:
            self._handler.eof()
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Deliver the latest size after a moment, however many come."""
        if self._handler and self._resizing is None:
            loop = asyncio.get_running_loop()
            self._resizing = loop.call_later(self._limits.resize_seconds, self._resize)

    def _resize(self) -> None:
        self._resizing = None
        if self._handler:
            self._guarded(self._handler.resized, *self._chan.size)

    def signal_received(self, signal: str) -> None:
        """INT and TERM interrupt; the others mean nothing here."""
        if self._handler and signal in {"INT", "TERM"}:
            self._handler.interrupt()

    def break_received(self, msec: int) -> bool:
        """A break interrupts."""
        if self._handler:
            self._handler.interrupt()
        return True

    def pause_writing(self) -> None:
        """Tell of the high-water mark."""
        if self._handler:
            self._guarded(self._handler.pause)

    def resume_writing(self) -> None:
        """Tell of the low-water mark."""
        if self._handler:
            self._guarded(self._handler.resume)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the handler, once, that it is over."""
        if self._resizing:
            self._resizing.cancel()
        handler, self._handler = self._handler, None
        if handler:
            self._caller.ended(self._chan)
            self._guarded(handler.closed, exc)

    def _guarded(self, call: Callable[..., None], *args: object) -> None:
        """Call a handler from where its failure would strike someone else: a writer, a timer."""
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one connection
            self._caller.crashed(error)
            self._caller.abort()


class Doorkeeper(asyncio.Protocol):
    """Meets a socket just accepted, before anything is spent on it."""

    def __init__(self, server: Server, options: SSHServerConnectionOptions) -> None:
        self._server = server
        self._options = options

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Turn it away, or make it a connection."""
        transport = cast("asyncio.Transport", transport)
        server, peername = self._server, transport.get_extra_info("peername")
        if not peername:  # gone already
            transport.abort()
            return
        try:
            ticket = server.admission.admit(
                peername[0], lambda: server.make_room(transport, peername[0])
            )
        except NotAdmitted as no:
            server.refuse(no.reason, peername[0])
            transport.write(b"sshwarma: too many connections; try again soon\r\n")
            transport.close()
            return
        caller = Caller(server, ticket, *peername[:2])
        server.accept(caller)
        connection = GuardedConnection(self._options, caller, server.limits)
        transport.set_protocol(connection)
        connection.connection_made(transport)


class Server:
    """A listening door and everyone who came through it. Made by `listen`."""

    def __init__(self, gate: Gate, sessions: Sessions, limits: Limits) -> None:
        self.gate = gate
        self.sessions = sessions
        self.limits = limits
        self.admission = Admission(limits)
        self.counters = Counters()
        self._log = LogWindow(limits.log_window)
        self._callers: dict[Caller, None] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._listener: asyncio.Server

    @property
    def port(self) -> int:
        """Where it listens, when port 0 was asked for."""
        return int(self._listener.sockets[0].getsockname()[1])

    @property
    def connections(self) -> int:
        """Connections now, authenticated or not."""
        return len(self._callers)

    @property
    def links(self) -> Sequence[Link]:
        """Those let in, oldest first."""
        return [caller for caller in self._callers if caller._entered and not caller.closed]

    def stop_accepting(self) -> None:
        """Let nobody new in; those inside stay."""
        self._listener.close()

    async def drain(self, reason: str, seconds: float = 5.0) -> None:
        """Let nobody new in, tell those inside why, and return when all are gone.

        Who has not gone after `seconds` is dropped.
        """
        self.stop_accepting()
        for caller in list(self._callers):
            caller.close(reason)
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            pass
        await self.close()

    async def close(self) -> None:
        """Drop everyone now, without a word, and return when all are gone."""
        self.stop_accepting()
        for caller in list(self._callers):
            caller.abort()
        await self._empty.wait()
        await asyncio.sleep(0)  # asyncio closes an aborted socket one turn later

    async def _listen(self, host: str, port: int, options: SSHServerConnectionOptions) -> None:
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: Doorkeeper(self, options), host, port, backlog=BACKLOG
        )

    # What the parts above report

    def accept(self, caller: Caller) -> None:
        """Someone was given a place."""
        self.counters.accepted += 1
        self._callers[caller] = None
        self._empty.clear()

    def forget(self, caller: Caller) -> None:
        """Someone is gone."""
        self.admission.leave(caller.ticket)
        self._callers.pop(caller, None)
        if not self._callers:
            self._empty.set()

    def refuse(self, reason: str, address: str) -> None:
        """Someone was turned away."""
        self.counters.refused[reason] += 1
        self._log.note("ssh.refused", reason, address=address)

    def make_room(self, transport: asyncio.Transport, address: str) -> None:
        """Someone who did not get on with it loses their place to a newcomer."""
        self.refuse("made_room", address)
        transport.abort()

    def auth_failed(
        self, caller: Caller, tries: int, last_key: str, error: Exception | None
    ) -> None:
        """Someone left who had tried and not authenticated."""
        self.counters.auth_failed += 1
        self.admission.failed(caller.ticket)
        self._log.note(
            "ssh.auth_failed",
            address=caller.address,
            tries=tries,
            last_key=last_key,
            error=str(error or ""),
        )

    def crashed(self, error: BaseException | None, peer: Peer | None) -> None:
        """Our own code failed on one connection."""
        self.counters.crashed += 1
        self._log.note("ssh.crashed", type(error).__name__, peer=peer, exc_info=error)


async def listen(
    host: str,
    port: int,
    *,
    host_keys: Sequence[asyncssh.SSHKey],
    gate: Gate,
    sessions: Sessions,
    limits: Limits | None = None,
) -> Server:
    """Open the door at `host` and `port` (0 picks one) and serve until `drain` or `close`.

    :raises OSError: when the address cannot be listened on
    """
    limits = limits or Limits()
    server = Server(gate, sessions, limits)
    options = await SSHServerConnectionOptions.construct(
        server_host_keys=list(host_keys),
        server_version="sshwarma",
        kex_algs=KEX,
        encryption_algs="aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes256-ctr,aes128-ctr",
        mac_algs="hmac-sha2-256-etm@openssh.com,hmac-sha2-256",
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
        window=limits.receive_window,
        login_timeout=limits.login_seconds,
        keepalive_interval=limits.keepalive_seconds,
        keepalive_count_max=limits.keepalive_misses - 1,
    )
    await server._listen(host, port, options)
    return server


def _readable(version: str) -> str:
    """The client's software, as far as it is plain text."""
    plain = "".join(char for char in version if " " <= char <= "~")
    return plain.removeprefix("SSH-2.0-")[:CLIENT_CHARS]
