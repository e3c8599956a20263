"""Events, published after their transaction is committed, and their bus.

The bus lives in this process. Every event about a room's log carries the room and the row's `seq`,
so that a listener that sees a gap can read the missing rows from the store; this will let several
nodes share one world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import structlog

from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.row import Row

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class RowAppended:
    """A row was committed.

    Attributes:
        audience: the ids of the agents it is for; None means the whole room.
        origin: the connection whose line made it, which is shown the result of that line.
    """

    row: Row
    audience: frozenset[str] | None = None
    origin: object | None = None
    view_cache: dict[object, object] = field(default_factory=dict)  # cache for the listeners' views


class ActiveTool(NamedTuple):
    """A tool that an answer waits for, and the latest report of its progress."""

    name: str
    report: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class StreamUpdated:
    """An unfinished answer: its whole text so far. Not stored; its row will be.

    For the progress of a tool call outside a turn, `turn_id` is the call's id.

    Attributes:
        since: start of the turn, in seconds of the monotonic clock.
        tokens: an estimate of the tokens the model has written in it.
        active_tools: the tools it waits for now.
        wait_reason: another reason to wait, such as "waiting 3 s (rate limited)".
    """

    room_id: str
    turn_id: str
    author_id: str
    text: str
    since: float = 0.0
    tokens: int = 0
    active_tools: tuple[ActiveTool, ...] = ()
    wait_reason: str = ""
    view_cache: dict[object, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """Streaming of that turn has ended; its text is in its rows."""

    room_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class TurnsChanged:
    """Turns of a room were dropped, restored or switched.

    `gone` are the numbers of rows that left the conversation, `back` of those that are in it again.
    """

    room_id: str
    gone: tuple[int, ...] = ()
    back: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FilesChanged:
    """The files of a room have a new version.

    `paths` are those that it changed of the one before; () if that is not known.
    """

    room_id: str
    manifest_id: str | None
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryChanged:
    """A key of a memory was set or deleted.

    Attributes:
        scope_id: the container of the memory: a project, or that of a room.
        room_id: the room whose memory it is; None for a project.
        done: what was done.
    """

    scope_id: str
    room_id: str | None
    key: str
    done: Literal["set", "deleted"]
    author_id: str


@dataclass(frozen=True, slots=True)
class WorldChanged:
    """Things, equipment, exits or access changed; values based on them are stale."""

    room_id: str | None = None


@dataclass(frozen=True, slots=True)
class AgentsChanged:
    """Agents, their roles, keys or settings changed; `agent_id` says whose."""

    agent_id: str


@dataclass(frozen=True, slots=True)
class TriggerChanged:
    """A trigger was turned on or off, or removed."""

    trigger_id: str


@dataclass(frozen=True, slots=True)
class TokenRevoked:
    """A token of an agent was revoked: what it let in must end."""

    agent_id: str
    token_id: str


@dataclass(frozen=True, slots=True)
class KeyRemoved:
    """An agent's key was removed or expired: connections made with it must end.

    No others.

    Attributes:
        reason: what a person at such a connection reads.
        asked_from: address of a connection of this key that asked for that; "" if none did.
    """

    agent_id: str
    fingerprint: str
    reason: str = "The key of this connection was removed."
    asked_from: str = ""


@dataclass(frozen=True, slots=True)
class KeyExpirySet:
    """The expiry of a key has changed; `expires_at` is None if it never expires."""

    agent_id: str
    fingerprint: str
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class PresenceChanged:
    """An agent entered, left or moved; `room_id` is one of the rooms it concerns."""

    room_id: str


@dataclass(frozen=True, slots=True)
class PersonalNotice:
    """A text for one agent, which its terminals show and nobody else sees.

    `sender` is what says it. With a `hint`, it is a question, and the hint says how to answer.
    Not stored.
    """

    agent_id: str
    sender: str
    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class Announcement:
    """A message to everyone who is connected. Not stored."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class AgentEvicted:
    """An agent's connections must end, or leave one room, for `reason`.

    They end if `room_id` is None. A connection in the lobby ends, because there is no other room.
    """

    agent_id: str
    reason: str
    room_id: str | None = None

    def ends_connection(self, room_id: str) -> bool:
        """Return whether a connection in that room must end."""
        return self.room_id is None or self.room_id == room_id == LOBBY_ID

    def moves_connection(self, room_id: str) -> bool:
        """Return whether a connection in that room must go to the lobby."""
        return self.room_id == room_id != LOBBY_ID


Event: TypeAlias = (
    RowAppended
    | StreamUpdated
    | StreamEnded
    | TurnsChanged
    | FilesChanged
    | MemoryChanged
    | WorldChanged
    | AgentsChanged
    | TriggerChanged
    | TokenRevoked
    | KeyRemoved
    | KeyExpirySet
    | PresenceChanged
    | PersonalNotice
    | Announcement
    | AgentEvicted
)
AgentEvent: TypeAlias = (
    RowAppended | AgentsChanged | PersonalNotice | Announcement | AgentEvicted | KeyRemoved
)
"""What `EventBus.on_agent` delivers."""

EventListener: TypeAlias = Callable[[Any], None]


class EventBus:
    """Delivers events to listeners, in the order of commits, on the event loop.

    A listener must not block. Listeners of rows get the events of one room or those addressed to
    one agent; listeners of a type get every event of that type.
    """

    def __init__(self) -> None:
        self._rooms: dict[str, dict[int, EventListener]] = {}
        self._agents: dict[str, dict[int, EventListener]] = {}
        self._types: dict[type, dict[int, EventListener]] = {}
        self._next = 0

    def on_room(self, room_id: str, listener: EventListener) -> Callable[[], None]:
        """Listen for RowAppended, StreamUpdated and StreamEnded of a room.

        Returns the function that stops it.
        """
        return self._add(self._rooms, room_id, listener)

    def on_agent(self, agent_id: str, listener: EventListener) -> Callable[[], None]:
        """Listen for RowAppended, PersonalNotice and AgentEvicted addressed to an agent.

        AgentsChanged and KeyRemoved of the agent are delivered too, and every Announcement.
        Returns the function that stops it.
        """
        return self._add(self._agents, agent_id, listener)

    def on_event(self, kind: type, listener: EventListener) -> Callable[[], None]:
        """Listen to every event of a type. Returns the function that stops it."""
        return self._add(self._types, kind, listener)

    def publish(self, event: Event) -> None:
        """Call the listeners of an event; log one that fails."""
        for listener in self._listeners(event):
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed", event_type=type(event).__name__)

    def _listeners(self, event: Event) -> list[EventListener]:
        listeners = list(self._types.get(type(event), {}).values())
        if isinstance(event, RowAppended):
            if event.audience is None:
                listeners += self._rooms.get(event.row.room_id, {}).values()
            else:
                for agent_id in event.audience:
                    listeners += self._agents.get(agent_id, {}).values()
        elif isinstance(event, (StreamUpdated, StreamEnded)):
            listeners += self._rooms.get(event.room_id, {}).values()
        elif isinstance(event, Announcement):
            listeners += [one for table in self._agents.values() for one in table.values()]
        elif isinstance(event, (PersonalNotice, AgentEvicted, AgentsChanged, KeyRemoved)):
            listeners += self._agents.get(event.agent_id, {}).values()
        return listeners

    def _add(
        self, table: dict[Any, dict[int, EventListener]], key: Any, listener: EventListener
    ) -> Callable[[], None]:
        self._next += 1
        number = self._next
        table.setdefault(key, {})[number] = listener

        def stop() -> None:
            listeners = table.get(key)
            if listeners is not None:
                listeners.pop(number, None)
                if not listeners:
                    del table[key]

        return stop
