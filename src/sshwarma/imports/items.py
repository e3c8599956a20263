"""The items of a step, which the command has read and sends to the world.

They are sent as JSON objects with the fields of these classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from sshwarma.common.limits import MAX_IMPORT_STEP_CHARACTERS, MAX_IMPORT_STEP_ITEMS
from sshwarma.world.errors import Invalid

StepKind: TypeAlias = Literal["rooms", "rows", "notes", "usage", "skills", "values"]

RowKind: TypeAlias = Literal["chat", "notice", "tool.call", "tool.result"]
Author: TypeAlias = Literal["person", "model", ""]


@dataclass(frozen=True, slots=True)
class RoomItem:
    """A conversation, which becomes a room.

    Attributes:
        session: its id in the source.
        origin: a hash of its first message, by which conversations of the same id in different
            sources differ; "" without messages.
        context_size: the turns that models see; None for the default.
    """

    session: str
    origin: str
    context_size: int | None = None


@dataclass(frozen=True, slots=True)
class RowItem:
    """A message, or a part of one, which becomes a row.

    Attributes:
        key: of the row in its conversation, such as `17/0`.
        group: id of its turn; "" outside turns.
        begins_turn: whether it is the first row of that turn that is imported.
        kind: of the row: `chat`, `notice`, `tool.call` or `tool.result`.
        author: who said it.
        tool: name of the tool of a call or a result.
        call_key: of a result, the key of its call; "" if that is not known.
        at: Unix milliseconds.
    """

    session: str
    key: str
    group: str
    begins_turn: bool
    kind: RowKind
    author: Author
    content: str
    tool: str
    call_key: str
    is_dropped: bool
    at: int


@dataclass(frozen=True, slots=True)
class NotesItem:
    """The notes of a model in a conversation."""

    session: str
    text: str


@dataclass(frozen=True, slots=True)
class UsageItem:
    """Tokens of one answer. `id` is that of the source, `at` in Unix milliseconds."""

    session: str
    id: int
    model: str
    prompt_tokens: int
    completion_tokens: int
    at: int


@dataclass(frozen=True, slots=True)
class SkillItem:
    """A skill: instructions with a name."""

    name: str
    text: str
    description: str


@dataclass(frozen=True, slots=True)
class ValueItem:
    """A value of the memory of a project."""

    project: str
    key: str
    value: str


Item: TypeAlias = RowItem | NotesItem | UsageItem | SkillItem | ValueItem | RoomItem

ITEM_TYPES: dict[str, type[Any]] = {
    "rooms": RoomItem,
    "rows": RowItem,
    "notes": NotesItem,
    "usage": UsageItem,
    "skills": SkillItem,
    "values": ValueItem,
}


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the world: items of one kind, and the rooms that they are in."""

    kind: str
    items: tuple[Any, ...]
    rooms: tuple[RoomItem, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as it is sent."""
        return {
            "kind": self.kind,
            "items": [asdict(item) for item in self.items],
            "rooms": [asdict(room) for room in self.rooms],
        }


def parse_step(sent: Mapping[str, Any]) -> Step:
    """Return the step that was sent.

    Raises:
        Invalid: if another version has sent it.
    """
    try:
        make = ITEM_TYPES[sent["kind"]]
        items = tuple(make(**item) for item in sent["items"])
        return Step(sent["kind"], items, tuple(RoomItem(**room) for room in sent["rooms"]))
    except (KeyError, TypeError):
        hint = "The server may be another version than this command."
        raise Invalid("The step of an import cannot be read.", hint=hint) from None


class StepMaker:
    """Collects items of one kind into steps of a bounded size."""

    def __init__(self, kind: StepKind, rooms: Mapping[str, RoomItem]) -> None:
        """Make steps of that kind; `rooms` has the conversations by their ids."""
        self._kind = kind
        self._rooms = rooms
        self._items: list[Item] = []
        self._characters = 0

    def add(self, item: Item, characters: int) -> Iterator[Step]:
        """Add an item whose texts have that many characters; yield a step that is full."""
        if self._items and self._characters + characters > MAX_IMPORT_STEP_CHARACTERS:
            yield from self.finish()
        self._items.append(item)
        self._characters += characters
        if len(self._items) >= MAX_IMPORT_STEP_ITEMS:
            yield from self.finish()

    def finish(self) -> Iterator[Step]:
        """Yield a step with the rest, if there is any."""
        if self._items:
            sessions = dict.fromkeys(getattr(item, "session", "") for item in self._items)
            rooms = tuple(self._rooms[name] for name in sessions if name in self._rooms)
            items, self._items, self._characters = tuple(self._items), [], 0
            yield Step(self._kind, items, () if self._kind == "rooms" else rooms)
