"""Prometheus metrics of models, MCP servers, worker processes and the disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection
from typing_extensions import override

from sshwarma.mcp.client.tool_approval import count_pending_tools
from sshwarma.services import Services
from sshwarma.web.metrics import make_counters, make_gauges
from sshwarma.world.dialect import DatabaseSizes
from sshwarma.world.end_reason import EndCause
from sshwarma.world.rooms import count_rooms
from sshwarma.world.world import World
from sshwarma.wrap.host import LuaHost

END_STATUSES: Final = ("completed", "failed", "cancelled")

REMOVED_MODEL: Final = "(removed)"
"""Label of all models that do not exist any more."""


class ModelMetricsCollector(Collector):
    """Prometheus collector of the models and their turns."""

    def __init__(self, world: World, services: Services) -> None:
        self._world = world
        self._services = services

    @override
    def collect(self) -> Iterator[Metric]:
        counts, totals = self._services.turns.counts, self._services.budgets.totals
        names = {agent_id: self._name(agent_id) for agent_id in (*self._services.roster, *totals)}
        ended = Counter({(name, status): 0 for name in names.values() for status in END_STATUSES})
        for (agent_id, status), count in counts.ended.items():
            ended[self._name(agent_id), str(status)] += count
        yield _make_pairs("sshwarma_turns", "Turns of models that ended.", "status", ended)
        causes = get_args(EndCause)
        failed = Counter({(name, cause): 0 for name in names.values() for cause in causes})
        for (agent_id, cause), count in counts.failed.items():
            failed[self._name(agent_id), str(cause)] += count
        yield _make_pairs(
            "sshwarma_turn_failures", "Turns without a whole answer, by cause.", "cause", failed
        )
        running: Counter[tuple[str, str]] = Counter(
            {(name, state): 0 for name in names.values() for state in ("answering", "waiting")}
        )
        for (agent_id, is_waiting), count in self._services.turns.count_running().items():
            running[self._name(agent_id), "waiting" if is_waiting else "answering"] += count
        family = GaugeMetricFamily(
            "sshwarma_turns_running",
            "Turns in progress; waiting ones wait for a busy provider.",
            labels=["model", "state"],
        )
        for pair, count in running.items():
            family.add_metric(pair, count)
        yield family
        tokens = Counter(dict.fromkeys(names.values(), 0))
        dollars: dict[str, float] = dict.fromkeys(names.values(), 0.0)
        for agent_id, total in totals.items():
            tokens[names[agent_id]] += total.tokens
            dollars[names[agent_id]] += total.cost
        yield make_counters(
            "sshwarma_model_tokens", "Tokens of requests and answers.", "model", tokens
        )
        yield make_counters(
            "sshwarma_model_cost_dollars", "Cost of answers whose price is known.", "model", dollars
        )

    def _name(self, agent_id: str) -> str:
        agent = self._world.agents.get(agent_id)
        return REMOVED_MODEL if agent is None else agent.name


class ToolMetricsCollector(Collector):
    """Prometheus collector of MCP servers, processes, and what waits for people."""

    def __init__(
        self,
        services: Services,
        lua_hosts: Mapping[str, LuaHost],
        git_processes: Callable[[], int],
    ) -> None:
        self._services = services
        self._lua_hosts = lua_hosts
        self._git_processes = git_processes

    @override
    def collect(self) -> Iterator[Metric]:
        hub = self._services.hub
        servers = hub.measure()
        listed = [server for server in servers if not server.is_offered]
        yield make_gauges(
            "sshwarma_mcp_server_up",
            "Whether an enabled MCP server is connected.",
            "server",
            {server.name: server.is_up for server in listed},
        )
        yield make_counters(
            "sshwarma_mcp_calls",
            "Calls to an MCP server since it was enabled.",
            "server",
            {server.name: server.calls for server in listed},
        )
        yield make_counters(
            "sshwarma_mcp_call_failures",
            "Calls that timed out, or whose connection failed.",
            "server",
            {server.name: server.failed_calls for server in listed},
        )
        yield GaugeMetricFamily(
            "sshwarma_mcp_offered_servers",
            "MCP servers that people offer over ssh now.",
            len(servers) - len(listed),
        )
        yield make_gauges(
            "sshwarma_worker_processes",
            "Processes that run and were started for a kind of work.",
            "kind",
            {kind: host.worker_count for kind, host in self._lua_hosts.items()}
            | {
                "mcp_program": sum(server.is_program and server.is_up for server in servers),
                "sandbox": self._services.runs.sandbox.running,
                "spare_sandbox": self._services.toolsets.spare_count,
                "git": self._git_processes(),
            },
        )


class BackupMaker(Protocol):
    """What makes backups by itself.

    Attributes:
        failed_backups: how many have failed.
        newest_backup: when the newest was made, in seconds since 1970.
        is_newest_complete: whether it has all contents of files.
    """

    failed_backups: int
    newest_backup: float | None
    is_newest_complete: bool

    @property
    def backup_interval(self) -> int | None:
        """Seconds between two backups, or None if none are made."""


class BackupMetricsCollector(Collector):
    """Prometheus collector of the backups that the server makes."""

    def __init__(self, maker: BackupMaker) -> None:
        self._maker = maker

    @override
    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "sshwarma_failed_backups",
            "Backups of the server itself that failed.",
            self._maker.failed_backups,
        )
        newest = GaugeMetricFamily(
            "sshwarma_last_backup_timestamp_seconds",
            "When the newest backup of the server itself was made; without one, nothing.",
        )
        if self._maker.newest_backup is not None:
            newest.add_metric([], self._maker.newest_backup)
        yield newest
        yield GaugeMetricFamily(
            "sshwarma_last_backup_incomplete",
            "Whether the newest backup of the server itself lacks contents of files.",
            int(self._maker.newest_backup is not None and not self._maker.is_newest_complete),
        )
        interval = GaugeMetricFamily(
            "sshwarma_backup_interval_seconds",
            "Seconds between two backups of the server itself; if it makes none, nothing.",
        )
        if self._maker.backup_interval is not None:
            interval.add_metric([], self._maker.backup_interval)
        yield interval


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a scrape reads from the disk and the database."""

    sizes: DatabaseSizes
    rooms: int
    pending_tools: int


class DiskMetricsCollector(Collector):
    """Prometheus collector of what is read from disk; `refresh` reads it."""

    def __init__(self, world: World, services: Services) -> None:
        self._world = world
        self._hub = services.hub
        self._approvals = services.tools.approvals
        self._facts: _Facts | None = None

    async def refresh(self) -> None:
        """Read the sizes of files, and the counts that change with the world's structure.

        Raises:
            OSError: if the data directory cannot be read.
            Unavailable: if the database cannot.
        """
        store = self._world.store
        sizes = await store.read(store.dialect.measure_sizes)
        rooms, pending = await self._world.memoized("structure counts", _count_structure)
        self._facts = _Facts(sizes, rooms, pending)

    @override
    def collect(self) -> Iterator[Metric]:
        facts = self._facts
        waiting = {
            "question": self._hub.elicitation.waiting_count,
            "sign_in": self._hub.oauth_sign_ins.waiting_count,
            "tool_call": len(self._approvals),
        }
        if facts is not None:
            waiting["tool_approval"] = facts.pending_tools
        yield make_gauges(
            "sshwarma_waiting_for_person",
            "Questions, sign-ins, changed tools of MCP servers, and calls that wait for a person.",
            "kind",
            waiting,
        )
        if facts is None:
            return
        yield GaugeMetricFamily("sshwarma_rooms", "Rooms, private ones included.", facts.rooms)
        yield make_gauges(
            "sshwarma_database_bytes",
            "Size of the database and of its write-ahead log.",
            "file",
            facts.sizes.files,
        )
        if facts.sizes.disk_free is not None:
            yield GaugeMetricFamily(
                "sshwarma_disk_free_bytes",
                "Free bytes of the disk of the world.",
                facts.sizes.disk_free,
            )
        if facts.sizes.disk_size is not None:
            yield GaugeMetricFamily(
                "sshwarma_disk_size_bytes", "Size of the disk of the world.", facts.sizes.disk_size
            )


def _count_structure(conn: Connection) -> tuple[int, int]:
    return count_rooms(conn), count_pending_tools(conn)


def _make_pairs(
    name: str, text: str, label: str, counts: Counter[tuple[str, str]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=["model", label])
    for pair, count in counts.items():
        family.add_metric(pair, count)
    return family
