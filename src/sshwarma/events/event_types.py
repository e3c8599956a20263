"""Events of rooms as programs hear them, in one form at every door.

A row of a log is an event that can be heard again: it has an id, which is a cursor. The others tell
of something that can be read at any time, and have no id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from pydantic import TypeAdapter

from sshwarma.common.limits import MAX_HEARD_ROOMS
from sshwarma.common.shorten import shorten_name
from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.authors import EXTERNAL_KEY
from sshwarma.world.errors import Invalid
from sshwarma.world.row import Row

SpeakerKind: TypeAlias = Literal["person", "model", "external", "server"]
"""Who says something: `external` is a program, also over ssh while it hears events."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who says or does something; the name is "" for the server."""

    name: str
    kind: SpeakerKind


@dataclass(frozen=True, slots=True)
class Reply:
    """How to answer: a verb, its arguments besides the text, and the room."""

    verb: str
    arguments: dict[str, str]
    room: str | None = None


@dataclass(frozen=True, slots=True)
class StartEvent:
    """The stream has begun: `id` is the cursor of its beginning."""

    id: str
    rooms: tuple[str, ...]
    type: Literal["start"] = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowEvent:
    """A row of a log: talk, a notice, a call of a tool, a note.

    Attributes:
        id: the cursor after it.
        room: the room; None for a message to you alone.
        seq: number of the row in its log.
        at: time, in milliseconds since 1970.
        kind: `chat`, `emote`, `tell`, `notice`, `presence`, `tool.call`, `tool.result`,
            `journal.decision` and others.
        to_you: whether it was said to you alone.
        mention: whether it calls you: answer then, and else only if it is what you are for. Of
            programs and models that you have called back it is false, until a person speaks.
        reply: how to answer; None where nobody waits for an answer.
        turn: id of the turn of a model that it belongs to.
        tool: name of the tool of a call or its result.
        approval: number of the question that a turn waits for; `allow` and `deny` take it.
    """

    id: str
    room: str | None = None
    seq: int
    at: int
    kind: str
    speaker: Speaker
    text: str
    to_you: bool
    mention: bool
    reply: Reply | None = None
    turn: str | None = None
    tool: str | None = None
    approval: int | None = None
    type: Literal["row"] = "row"

    def __hash__(self) -> int:
        """Return the hash of the cursor, so that a cache need not read all of it."""
        return hash(self.id)


@dataclass(frozen=True, slots=True)
class AnswerEvent:
    """A part of an answer as it is written; its row comes when it is whole.

    Attributes:
        more: what follows the parts before; or `text`, the whole text, where it begins again.
        tools: names of the tools that it waits for.
        waits: why else it waits.
    """

    room: str
    turn: str
    speaker: Speaker
    more: str | None
    text: str | None
    tools: tuple[str, ...]
    waits: str
    type: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True)
class PresenceEvent:
    """Who is in a room has changed: `here` are the names of all who are."""

    room: str
    here: tuple[str, ...]
    type: Literal["presence"] = "presence"


@dataclass(frozen=True, slots=True)
class TurnsEvent:
    """Turns were taken back, restored or replaced.

    `gone` are numbers of rows that no longer count, `back` of rows that count again; `seq` is the
    number of the row that says so.
    """

    room: str
    seq: int
    gone: tuple[int, ...]
    back: tuple[int, ...]
    type: Literal["turns"] = "turns"


@dataclass(frozen=True, slots=True)
class FilesEvent:
    """The files of a room have a new version, in which `paths` differ."""

    room: str
    version: str | None
    paths: tuple[str, ...]
    type: Literal["files"] = "files"


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """A key of the room's session memory was set or deleted."""

    room: str
    key: str
    done: Literal["set", "deleted"]
    by: str
    type: Literal["memory"] = "memory"


@dataclass(frozen=True, slots=True)
class RoomEvent:
    """Things, equipment, exits or access of a room have changed: look again."""

    room: str
    type: Literal["room"] = "room"


@dataclass(frozen=True, slots=True)
class NoticeEvent:
    """A text for you alone, or for everybody, that is in no log."""

    speaker: Speaker
    text: str
    type: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True)
class EndEvent:
    """Nothing more comes of a room, or of all if `room` is None.

    `reason` is a sentence; `again` says whether to begin again, from the last id.
    """

    room: str | None
    reason: str
    again: bool
    type: Literal["end"] = "end"


HeardEvent: TypeAlias = (
    StartEvent
    | RowEvent
    | AnswerEvent
    | PresenceEvent
    | TurnsEvent
    | FilesEvent
    | MemoryEvent
    | RoomEvent
    | NoticeEvent
    | EndEvent
)

EVENT_ADAPTER: TypeAdapter[Any] = TypeAdapter(HeardEvent)

EventType: TypeAlias = Literal[
    "row", "answer", "presence", "turns", "files", "memory", "room", "notice"
]
"""A type of event that a listener may choose."""


def find_speaker(agents: AgentDirectory, author_id: str | None) -> Speaker:
    """Return who an agent is to those who hear it."""
    author: Agent | None = agents.get(author_id)
    if author_id is None:
        return _make_speaker("", "server")
    is_model = author is not None and author.kind == "model"
    return _make_speaker(agents.name_of(author_id), "model" if is_model else "person")


def find_row_speaker(agents: AgentDirectory, row: Row) -> Speaker:
    """Return who has written a row to those who hear it."""
    speaker = find_speaker(agents, row.author_id)
    if speaker.kind == "person" and row.meta.get(EXTERNAL_KEY):
        return _make_speaker(agents.name_author(row), "external")
    return speaker


@lru_cache(maxsize=256)  # each listener of a new row asks for the same one
def _make_speaker(name: str, kind: SpeakerKind) -> Speaker:
    return Speaker(name, kind)


_WORLD: Final = "me"
"""Stands in a cursor for what only the listener hears, instead of the id of a room."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in the logs of rooms, and in the agent's private messages.

    Attributes:
        rooms: number of the last row that was heard, by id of the room.
        number: position in the world's log up to which private messages were heard, and rooms that
            are not in `rooms`; None before it is known.
    """

    rooms: dict[str, int]
    number: int | None = None

    def __str__(self) -> str:
        return format_cursor(self.rooms, self.number)


def format_cursor(rooms: Mapping[str, int], number: int | None) -> str:
    """Return the cursor of a position as text; see `Cursor`."""
    parts = [f"{room_id}:{seq}" for room_id, seq in rooms.items()]
    return ",".join(parts if number is None else [*parts, f"{_WORLD}:{number}"])


def parse_cursor(text: str, argument: str = "after") -> Cursor:
    """Return the cursor that an event had as its id.

    Args:
        text: the cursor.
        argument: name of the argument that it is.

    Raises:
        Invalid: if it is malformed.
    """
    rooms: dict[str, int] = {}
    parts = text.split(",") if text else []
    for part in parts[: MAX_HEARD_ROOMS + 2]:
        name, colon, number = part.partition(":")
        if not (name and colon and number.isascii() and number.isdecimal() and len(number) < 17):
            raise Invalid(
                f"{argument}: {shorten_name(text)} is no cursor.",
                hint="Give that of the last event that was heard, or leave it out to begin now.",
            )
        rooms[name] = int(number)
    return Cursor(rooms, rooms.pop(_WORLD, None))
