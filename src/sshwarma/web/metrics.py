"""Prometheus metrics: running totals of the other parts, collected per scrape."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from sshwarma.tools.search import NamespaceSearch
from sshwarma.world.world import World

LAG_PROBE_SECONDS: Final = 0.1
LAG_BUCKETS_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


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


class WorldMetricsCollector(Collector):
    """Prometheus collector of counters: world, ssh door and namespace search."""

    def __init__(self, world: World, ssh: MeasuredDoor, search: NamespaceSearch) -> None:
        self._world = world
        self._ssh = ssh
        self._search = search

    @override
    def collect(self) -> Iterator[Metric]:
        world, ssh = self._world, self._ssh
        yield GaugeMetricFamily("sshwarma_connections", "Open ssh connections.", ssh.connections)
        yield GaugeMetricFamily(
            "sshwarma_present", "Connections that are in a room.", len(world.presence)
        )
        yield CounterMetricFamily(
            "sshwarma_accepted", "Connections accepted.", ssh.counters.accepted
        )
        yield CounterMetricFamily(
            "sshwarma_authenticated",
            "Connections authenticated by a key.",
            ssh.counters.authenticated,
        )
        yield CounterMetricFamily(
            "sshwarma_auth_failed",
            "Connections that failed to authenticate.",
            ssh.counters.auth_failed,
        )
        refusals = CounterMetricFamily(
            "sshwarma_refused", "Connections refused.", labels=["reason"]
        )
        for reason, count in ssh.counters.refused.items():
            refusals.add_metric([reason], count)
        yield refusals
        yield CounterMetricFamily(
            "sshwarma_find_embedded",
            "Namespace searches for more than a name, answered by similarity too.",
            self._search.embedded_queries,
        )
        counts = world.store.counts
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
