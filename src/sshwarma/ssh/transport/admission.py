"""Admission control of the ssh door: every limit, and the counters behind them.

It protects the server from clients that are not authenticated yet. It uses no socket; the server
reports events to it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from sshwarma.common.address_groups import group_address
from sshwarma.common.limits import (
    MAX_KEEPALIVE_MISSES,
    MAX_TERMINAL_COLUMNS,
    MAX_TERMINAL_ROWS,
    MIN_TERMINAL_COLUMNS,
    MIN_TERMINAL_ROWS,
)
from sshwarma.common.rate_limit import SlidingWindow
from sshwarma.common.units import KIB, MIB
from sshwarma.settings import SshSettings, is_loopback
from sshwarma.ssh.transport.interfaces import Rejected

DEFAULTS: Final = SshSettings()

MAX_REMEMBERED_ADDRESSES = 10_000
"""Addresses kept in memory; the longest idle are dropped first."""

MAX_LOG_KINDS = 1_000
"""Kinds of log messages counted; each event has a few fixed kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """Limits of the ssh door, in seconds or bytes unless the name says otherwise.

    Limits that an operator can set have their defaults in `SshSettings` alone.
    """

    # Before authentication. A handshake costs about 5 ms of CPU, a silent socket one slot.
    max_pending: int = DEFAULTS.max_pending
    """Unauthenticated connections in all, as OpenSSH's MaxStartups."""
    max_pending_per_address: int = DEFAULTS.max_pending_per_address
    """Unauthenticated connections from one address, so that one address cannot take all slots."""
    first_byte_seconds: float = 0.25
    """Silence after which a connection may lose its slot; real clients send at once."""
    handshake_seconds: float = 2.0
    """Age at which a handshake may lose its slot when all slots are taken."""
    login_seconds: float = DEFAULTS.login_seconds
    """Time from connect to authenticated, after which the connection is dropped."""
    enter_seconds: float = 10.0
    """Time the world may take to admit an authenticated peer."""
    max_refused_keys: int = 10
    """Keys refused on one connection; more than any honest agent holds."""
    max_auth_requests: int = 40
    """Authentication requests of any kind on one connection; each key may take a query and a
    signature."""
    max_free_failures: int = DEFAULTS.free_failed_logins
    """Failed connections of one address without delay; each further one doubles the delay."""
    failure_half_life_seconds: float = 60.0
    """Half-life of the failure count."""
    max_lockout_seconds: float = 60.0
    """Maximum time that an address is shut out; many people may share one address."""
    exempt_loopback: bool = not DEFAULTS.limit_loopback
    """Exempt 127.0.0.1 and ::1 from limits per address, for tests and behind a local proxy."""
    proxy_from: tuple[str, ...] = DEFAULTS.proxy_from
    """Networks of balancers: connections from there begin with a PROXY header."""

    # After authentication.
    max_connections: int = DEFAULTS.max_connections
    """Connections in all: about 30 KiB each, and one file descriptor of the usual 4096 or more."""
    max_connections_per_address: int = DEFAULTS.max_connections_per_address
    """Connections from one address: enough for an office behind one router, not for a flood."""
    max_connections_per_key: int = DEFAULTS.max_connections_per_key
    """Connections with one key: a person's terminals and scripts."""
    max_channels: int = 10
    """Open channels of one connection, as OpenSSH's MaxSessions."""
    max_forwards: int = 60
    """Forwarded connections besides them: a browser has one for each tab, and some for pages."""
    keepalive_seconds: float = DEFAULTS.keepalive_seconds
    """Silence after which a keepalive is sent."""
    max_keepalive_misses: int = MAX_KEEPALIVE_MISSES
    """Silent intervals before a peer counts as dead: 45 s, so no ghost lasts a minute."""
    max_rekey_burst: int = 16
    """Key exchanges a client may request at once; each costs about 1 ms of CPU."""
    max_rekeys_per_second: float = 4.0
    """Rate of further key exchanges; above it the exchange and the client's input wait."""
    rekey_timeout_seconds: float = 20.0
    """Time to finish a key exchange, after which the connection ends."""
    farewell_seconds: float = 2.0
    """Time that closing waits for the peer to read the buffered data."""

    # One channel.
    send_buffer_high_bytes: int = 64 * KIB
    """Unsent bytes above which the handler's `pause` is called: a few full screens."""
    send_buffer_low_bytes: int = 16 * KIB
    """Unsent bytes at or below which the handler's `resume` is called."""
    max_send_buffer_bytes: int = MIB
    """Unsent bytes at which the connection is closed, because its handler ignores `pause`."""
    receive_window_bytes: int = 512 * KIB
    """Bytes a client may send ahead while its handler has paused reading."""
    max_command_bytes: int = 64 * KIB
    """Maximum length of `ssh host COMMAND`; longer text comes by standard input."""
    max_env_bytes: int = 256
    """Maximum length of an environment value that is kept."""
    columns: tuple[int, int] = (MIN_TERMINAL_COLUMNS, MAX_TERMINAL_COLUMNS)
    """Minimum and maximum terminal width used."""
    rows: tuple[int, int] = (MIN_TERMINAL_ROWS, MAX_TERMINAL_ROWS)
    """Minimum and maximum terminal height used."""
    resize_seconds: float = 0.03
    """Resizes within this time are delivered as one; dragging a window sends hundreds."""

    log_window_seconds: float = 10.0
    """Each kind of refusal is logged once per window, with the number left out before."""

    @classmethod
    def from_settings(cls, settings: SshSettings) -> AdmissionLimits:
        """Return the limits of a server with these settings."""
        return cls(
            max_pending=settings.max_pending,
            max_pending_per_address=settings.max_pending_per_address,
            login_seconds=settings.login_seconds,
            max_free_failures=settings.free_failed_logins,
            exempt_loopback=not settings.limit_loopback,
            proxy_from=settings.proxy_from,
            max_connections=settings.max_connections,
            max_connections_per_address=settings.max_connections_per_address,
            max_connections_per_key=settings.max_connections_per_key,
            keepalive_seconds=settings.keepalive_seconds,
        )


@dataclass(slots=True)
class AdmissionCounters:
    """Running totals for the metrics page."""

    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    authenticated: int = 0
    auth_failed: int = 0
    crashed: int = 0


class AdmissionRefused(Exception):
    """A refusal by `Admission.admit`; its fixed `reason` can be a metric label."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, eq=False)
class AdmissionTicket:
    """One connection's slot, from accept to close."""

    address_group: str | None
    accepted_at: float
    drop: Callable[[], None]
    has_sent_bytes: bool = False
    key: str | None = None


@dataclass(slots=True)
class _AddressRecord:
    """The record of one address (an IPv6 /64 counts as one)."""

    open_connections: int = 0
    failures: float = 0.0
    failed_at: float = 0.0
    locked_until: float = 0.0


class Admission:
    """Slots of pending and authenticated connections, and failures per address."""

    def __init__(
        self, limits: AdmissionLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._pending: dict[AdmissionTicket, None] = {}  # in order of arrival
        self._inside: set[AdmissionTicket] = set()
        self._keys: Counter[str] = Counter()
        self._addresses: dict[str, _AddressRecord] = {}

    @property
    def pending(self) -> int:
        """Connections not yet authenticated."""
        return len(self._pending)

    @property
    def connections(self) -> int:
        """Connections in all."""
        return len(self._pending) + len(self._inside)

    def admit(self, address: str, drop: Callable[[], None]) -> AdmissionTicket:
        """Give a new connection a slot; `drop` must end it at once if another needs it.

        Raises:
            AdmissionRefused: if no slot is free or the address is over a limit.
        """
        limits, now = self._limits, self._clock()
        group = self._group(address)
        if self.connections >= limits.max_connections:
            raise AdmissionRefused("connections")
        if group is not None:
            record = self._addresses.get(group, _AddressRecord())
            if now < record.locked_until:
                raise AdmissionRefused("failures")
            if record.open_connections >= limits.max_connections_per_address:
                raise AdmissionRefused("connections_per_address")
            tickets = [ticket for ticket in self._pending if ticket.address_group == group]
            if len(tickets) >= limits.max_pending_per_address and not self._make_room(tickets, now):
                raise AdmissionRefused("pending_per_address")
        if len(self._pending) >= limits.max_pending and not self._make_room(self._pending, now):
            raise AdmissionRefused("pending")
        ticket = AdmissionTicket(group, now, drop)
        self._pending[ticket] = None
        if group is not None:
            self._remember(group).open_connections += 1
        return ticket

    def promote(self, ticket: AdmissionTicket, fingerprint: str) -> None:
        """Move a connection from pending to authenticated.

        Raises:
            Rejected: if this key is at its limit of connections.
        """
        if ticket not in self._pending:
            return
        most = self._limits.max_connections_per_key
        if self._keys[fingerprint] >= most:
            raise Rejected(f"this key already has {most} connections (the limit)")
        del self._pending[ticket]
        self._inside.add(ticket)
        self._keys[fingerprint] += 1
        ticket.key = fingerprint

    def count_failure(self, ticket: AdmissionTicket) -> None:
        """Count a failed authentication against the connection's address."""
        if ticket.address_group is None:
            return
        limits, now, record = self._limits, self._clock(), self._remember(ticket.address_group)
        record.failures = 1 + record.failures * 0.5 ** (
            (now - record.failed_at) / limits.failure_half_life_seconds
        )
        record.failed_at = now
        excess = record.failures - limits.max_free_failures
        if excess > 0:
            record.locked_until = now + min(limits.max_lockout_seconds, 2 ** min(excess, 16))

    def leave(self, ticket: AdmissionTicket) -> None:
        """Release a slot; a second call does nothing."""
        if ticket in self._pending:
            del self._pending[ticket]
        elif ticket in self._inside:
            self._inside.discard(ticket)
        else:
            return
        if ticket.key is not None:
            self._keys[ticket.key] -= 1
            if not self._keys[ticket.key]:
                del self._keys[ticket.key]
        if ticket.address_group is not None:
            self._remember(ticket.address_group).open_connections -= 1

    def _make_room(self, among: Iterable[AdmissionTicket], now: float) -> bool:
        """Drop the oldest silent, else the oldest slow connection; return False if none."""
        aged_tickets = [(now - ticket.accepted_at, ticket) for ticket in among]
        silent = (
            t
            for age, t in aged_tickets
            if not t.has_sent_bytes and age >= self._limits.first_byte_seconds
        )
        slow = (t for age, t in aged_tickets if age >= self._limits.handshake_seconds)
        victim = next(silent, None) or next(slow, None)
        if victim is None:
            return False
        self.leave(victim)
        victim.drop()
        return True

    def _group(self, address: str) -> str | None:
        """Return the key by which an address is counted; None if it is exempt."""
        group = group_address(address)
        return None if self._limits.exempt_loopback and is_loopback(group) else group

    def _remember(self, group: str) -> _AddressRecord:
        record = self._addresses.get(group)
        if record is None:
            if len(self._addresses) >= MAX_REMEMBERED_ADDRESSES:
                self._forget_idle()
            record = self._addresses[group] = _AddressRecord(failed_at=self._clock())
        return record

    def _forget_idle(self) -> None:
        """Drop the older half of the addresses without a connection."""
        idle = [group for group, record in self._addresses.items() if not record.open_connections]
        for group in idle[: len(idle) // 2 + 1]:
            del self._addresses[group]


class LogThrottle:
    """A log that writes each kind of event once per window, with the number left out."""

    def __init__(self, window: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = structlog.get_logger("sshwarma.ssh")
        self._window = SlidingWindow(1, window, max_keys=MAX_LOG_KINDS, clock=clock)
        self._unlogged: Counter[str] = Counter()

    def note(self, event: str, kind: str = "", **facts: object) -> None:
        """Log `event` unless the same event and kind were logged within the window."""
        name = f"{event}/{kind}"
        if self._window.hit(name) > 0:
            self._unlogged[name] += 1
            return
        unlogged = self._unlogged.pop(name, 0)
        self._log.warning(event, kind=kind, not_logged_before=unlogged, **facts)
