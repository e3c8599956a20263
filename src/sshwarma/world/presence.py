"""Presence: live connections, the room of each, and when it was last used.

Presence lives in this process and is lost when it ends. An agent may have several connections; it
is in a room while one of them is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from sshwarma.common.limits import IDLE_SECONDS
from sshwarma.world.doors import Door
from sshwarma.world.events import PresenceChanged


@dataclass(slots=True, eq=False)
class AgentConnection:
    """One live connection of an agent, in one room.

    Times are seconds of `time.monotonic`. `program` is the name that an MCP client gives itself;
    `hints` were given to who types, and are not repeated. `is_browser_terminal`: whether it is a
    terminal in a browser, where people type lines as over ssh.
    """

    agent_id: str
    room_id: str
    door: Door
    program: str = ""
    connected_at: float = field(default_factory=time.monotonic)
    last_active: float = field(default_factory=time.monotonic)
    hints: set[str] = field(default_factory=set)
    is_browser_terminal: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether somebody types lines there, and is shown what is not in the log."""
        return self.door == "ssh" or self.is_browser_terminal

    def is_new_hint(self, hint: str) -> bool:
        """Return whether a hint was not given here before, and note that it is."""
        is_new = hint not in self.hints
        self.hints.add(hint)
        return is_new

    def mark_active(self) -> None:
        """Record that the agent has just typed or called something."""
        self.last_active = time.monotonic()


@dataclass(frozen=True, slots=True)
class PresentAgent:
    """One agent as others see it in a room or in /who."""

    agent_id: str
    door: Door
    room_id: str
    idle_seconds: int
    program: str = ""

    def kind(self, agent_kind: str) -> str:
        """Return what the agent is as it is present here.

        The account of a person is `external` while a program acts for it over MCP. An inspector is
        a window for people.
        """
        is_program = self.door == "mcp" and self.program and "inspector" not in self.program.lower()
        return "external" if agent_kind == "person" and is_program else agent_kind

    @property
    def status(self) -> str:
        """`idle` after IDLE_SECONDS without activity, or `active`."""
        return "idle" if self.idle_seconds >= IDLE_SECONDS else "active"


class Presence:
    """The connections of this process, by room and by agent."""

    def __init__(self, publish: Callable[[PresenceChanged], None]) -> None:
        self._publish = publish
        self._rooms: dict[str, dict[str, list[AgentConnection]]] = {}
        self._agents: dict[str, list[AgentConnection]] = {}
        self.versions: dict[str, int] = {}

    def enter(self, connection: AgentConnection) -> bool:
        """Add a connection. Returns whether its agent was not in that room before."""
        self._agents.setdefault(connection.agent_id, []).append(connection)
        return self._add_to_room(connection)

    def leave(self, connection: AgentConnection) -> bool:
        """Remove a connection. Returns whether its agent has thereby left the room."""
        links = self._agents.get(connection.agent_id, [])
        if connection not in links:
            return False
        links.remove(connection)
        if not links:
            del self._agents[connection.agent_id]
        return self._remove_from_room(connection)

    def move(self, connection: AgentConnection, room_id: str) -> tuple[bool, bool]:
        """Move a connection to another room.

        Returns whether its agent left the old one, and whether it entered the new one.
        """
        has_left = self._remove_from_room(connection)
        connection.room_id = room_id
        return has_left, self._add_to_room(connection)

    def set_program(self, connection: AgentConnection, program: str) -> None:
        """Record which program a connection belongs to."""
        if connection.program != program:
            connection.program = program
            self._publish_change(connection.room_id)

    def in_room(self, room_id: str, limit: int | None = None) -> list[PresentAgent]:
        """Return an entry for each agent, by arrival, with its last used connection.

        Returns the first `limit` entries if given.
        """
        links = islice(self._rooms.get(room_id, {}).values(), limit)
        return [self._to_present(of_agent) for of_agent in links]

    def count(self, room_id: str) -> int:
        """Number of agents in a room."""
        return len(self._rooms.get(room_id, ()))

    def everyone(self) -> list[PresentAgent]:
        """Return one entry for each agent and room."""
        return [self._to_present(links) for room in self._rooms.values() for links in room.values()]

    def connections_of(self, agent_id: str) -> list[AgentConnection]:
        """Return the connections of an agent."""
        return list(self._agents.get(agent_id, ()))

    def count_agents(self) -> int:
        """Number of agents that are connected."""
        return len(self._agents)

    def __iter__(self) -> Iterator[AgentConnection]:
        return (link for links in self._agents.values() for link in links)

    def __len__(self) -> int:
        return sum(len(links) for links in self._agents.values())

    def room_version(self, room_id: str) -> int:
        """Return a number that changes when an agent enters or leaves the room."""
        return self.versions.get(room_id, 0)

    def _add_to_room(self, connection: AgentConnection) -> bool:
        agents = self._rooms.setdefault(connection.room_id, {})
        links = agents.setdefault(connection.agent_id, [])
        links.append(connection)
        self._publish_change(connection.room_id)
        return len(links) == 1

    def _remove_from_room(self, connection: AgentConnection) -> bool:
        agents = self._rooms.get(connection.room_id, {})
        links = agents.get(connection.agent_id, [])
        if connection in links:
            links.remove(connection)
        has_left = not links
        if has_left:
            agents.pop(connection.agent_id, None)
            if not agents:
                self._rooms.pop(connection.room_id, None)
        self._publish_change(connection.room_id)
        return has_left

    def _publish_change(self, room_id: str) -> None:
        self.versions[room_id] = self.versions.get(room_id, 0) + 1
        self._publish(PresenceChanged(room_id))

    @staticmethod
    def _to_present(links: list[AgentConnection]) -> PresentAgent:
        latest = max(links, key=lambda link: link.last_active)
        idle = int(time.monotonic() - latest.last_active)
        return PresentAgent(latest.agent_id, latest.door, latest.room_id, idle, latest.program)
