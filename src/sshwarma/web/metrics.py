"""Prometheus metrics: running totals of the other parts, collected per scrape.

A scrape runs on the event loop and reads memory only. What must be asked of the disk or the
database is read before, in threads. Labels hold no names of people and rooms.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Protocol, get_args

import structlog
from prometheus_client import CollectorRegistry, Histogram, PlatformCollector, ProcessCollector
from prometheus_client import Counter as CounterMetric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from typing_extensions import override

import sshwarma
from sshwarma.common.limits import WRITE_CHECK_TIMEOUT_SECONDS
from sshwarma.common.refusals import RefusedBy, read_refusals
from sshwarma.settings.log_output import log_output
from sshwarma.tools.search import NamespaceSearch
from sshwarma.world.errors import WorldError
from sshwarma.world.migrate import newest_revision
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

LAG_PROBE_SECONDS: Final = 0.1
LAG_BUCKETS_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

REFRESH_TIMEOUT_SECONDS: Final = WRITE_CHECK_TIMEOUT_SECONDS + 0.5
"""Seconds for what a scrape reads from the disk; then it shows what was read before. The check of
/healthz, which ends by itself, fits into them."""

SSH_REFUSALS: Final = (
    "connections", "connections_per_address", "pending", "pending_per_address", "failures",
    "made_room", "not_admitted", "admit_timeout", "proxy_header", "closed",
)  # fmt: skip
"""Reasons for which the ssh door refuses a connection; they are shown before they occur."""


class DoorCounters(Protocol):
    """Counters of a door, totals since the start of the server."""

    accepted: int
    authenticated: int
    auth_failed: int
    refused: Counter[str]


class MeasuredDoor(Protocol):
    """The interface of a door whose connections are measured."""

    @property
    def connections(self) -> int:
        """Number of open connections."""

    @property
    def counters(self) -> DoorCounters:
        """The counters of the door."""


class MetricsPage:
    """The metrics of a server; `add` adds families to them.

    Those of the process (`process_*`) and of the interpreter (`python_info`) are there already.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._failed = CounterMetric(
            "sshwarma_scrape_failures",
            "Scrapes whose figures of the disk or the database were not current.",
            registry=self.registry,
        )
        self._refreshers: list[Callable[[], Awaitable[None]]] = []

    def add(
        self, collector: Collector, refresh: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Add a collector; `refresh` is awaited before each scrape."""
        self.registry.register(collector)
        if refresh is not None:
            self._refreshers.append(refresh)

    async def render(self) -> bytes:
        """Return the page, in Prometheus' text format.

        The figures are read side by side: one that cannot be read leaves the others current.
        """
        current = await asyncio.gather(*map(_refresh, self._refreshers))
        if not all(current):
            self._failed.inc()
        return generate_latest(self.registry)


async def _refresh(refresh: Callable[[], Awaitable[None]]) -> bool:
    """Read some figures again; return whether they are current."""
    try:
        async with asyncio.timeout(REFRESH_TIMEOUT_SECONDS):
            await refresh()
    except (TimeoutError, OSError, WorldError) as error:
        log.warning("figures of a scrape are not current", reason=repr(error))
        return False
    return True


class WorldMetricsCollector(Collector):
    """Prometheus collector of the world, its store, its doors and the search.

    `http_connections` returns the number of open HTTP connections, `sftp_clients` that of clients
    of sftp, which are connected by ssh.
    """

    def __init__(
        self,
        world: World,
        ssh: MeasuredDoor,
        search: NamespaceSearch,
        http_connections: Callable[[], int],
        sftp_clients: Callable[[], int],
    ) -> None:
        self._world = world
        self._ssh = ssh
        self._search = search
        self._http_connections = http_connections
        self._sftp_clients = sftp_clients

    @override
    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "sshwarma_build",
            "Version of the program and schema of its database.",
            {"version": sshwarma.__version__, "schema": newest_revision()},
        )
        yield CounterMetricFamily(
            "sshwarma_lost_log_lines",
            "Lines of the log that could not be written.",
            log_output.lost_lines,
        )
        yield from self._collect_doors()
        yield from self._collect_people()
        yield from self._collect_store()
        yield CounterMetricFamily(
            "sshwarma_find_embedded",
            "Namespace searches for more than a name, answered by similarity too.",
            self._search.embedded_queries,
        )

    def _collect_doors(self) -> Iterator[Metric]:
        ssh = self._ssh
        yield make_gauges(
            "sshwarma_connections",
            "Open connections, authenticated or not.",
            "door",
            {"ssh": ssh.connections, "http": self._http_connections()},
        )
        yield GaugeMetricFamily(
            "sshwarma_sftp_clients", "Clients of sftp, of scp and sshfs too.", self._sftp_clients()
        )
        yield CounterMetricFamily(
            "sshwarma_accepted", "Connections of ssh accepted.", ssh.counters.accepted
        )
        yield CounterMetricFamily(
            "sshwarma_authenticated",
            "Connections of ssh authenticated by a key.",
            ssh.counters.authenticated,
        )
        failed: Counter[str] = Counter(
            {"ssh": ssh.counters.auth_failed, "api": 0, "mcp": 0, "web": 0}
        )
        failed.update(self._world.failed_logins.counts)
        yield make_counters(
            "sshwarma_auth_failed",
            "Failed logins over ssh, refused registrations and refused tokens, by door.",
            "door",
            failed,
        )
        refused = {f"ssh_{reason}": ssh.counters.refused[reason] for reason in SSH_REFUSALS}
        refused |= dict.fromkeys(get_args(RefusedBy), 0) | read_refusals()
        yield make_counters(
            "sshwarma_refused", "Connections and requests refused by a limit.", "limit", refused
        )

    def _collect_people(self) -> Iterator[Metric]:
        world = self._world
        yield make_gauges(
            "sshwarma_agents",
            "Accounts that are not disabled, and models that are not removed, by kind.",
            "kind",
            Counter(agent.kind for agent in world.agents if not (agent.disabled or agent.retired)),
        )
        doors: Counter[str] = Counter({"ssh": 0, "mcp": 0, "web": 0})
        doors.update(connection.door for connection in world.presence)
        yield make_gauges(
            "sshwarma_present", "Connections that are in a room, by door.", "door", doors
        )
        present = {connection.agent_id for connection in world.presence}
        yield GaugeMetricFamily(
            "sshwarma_agents_present", "Agents with a connection in a room.", len(present)
        )

    def _collect_store(self) -> Iterator[Metric]:
        counts = self._world.store.counts
        yield CounterMetricFamily("sshwarma_units", "Units of work committed.", counts.units)
        yield CounterMetricFamily("sshwarma_commits", "Transactions committed.", counts.commits)
        yield CounterMetricFamily(
            "sshwarma_failed_commits", "Transactions that failed to commit.", counts.failed_commits
        )
        yield CounterMetricFamily(
            "sshwarma_commit_seconds", "Time spent in transactions.", counts.commit_seconds
        )
        yield CounterMetricFamily(
            "sshwarma_reads", "Read queries run on the database.", counts.reads
        )


def make_gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    """Return a family of gauges with one label."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for value_label, value in values.items():
        family.add_metric([value_label], value)
    return family


def make_counters(
    name: str, text: str, label: str, values: Mapping[str, float]
) -> CounterMetricFamily:
    """Return a family of counters with one label."""
    family = CounterMetricFamily(name, text, labels=[label])
    for value_label, value in values.items():
        family.add_metric([value_label], value)
    return family


class LoopLagMonitor:
    """Measures delays of event loop timers, the first sign of a blocked loop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._histogram = Histogram(
            "sshwarma_loop_lag_seconds",
            "Delay of an event loop timer, in seconds.",
            buckets=LAG_BUCKETS_SECONDS,
            registry=registry,
        )

    async def watch(self) -> None:
        """Measure the delay of the event loop until cancelled."""
        while True:
            due = time.perf_counter() + LAG_PROBE_SECONDS
            await asyncio.sleep(LAG_PROBE_SECONDS)
            self._histogram.observe(max(0.0, time.perf_counter() - due))
