"""What has to change in a world so that its rooms are as their folders say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from sqlalchemy import Connection

from sshwarma.building.read_room import ALL_MODELS, read_room_folder
from sshwarma.building.room_folder import RoomFile, RoomFolder
from sshwarma.world import rooms
from sshwarma.world.agents import AgentDirectory
from sshwarma.world.names import TRIGGER_PREFIX

StepKind: TypeAlias = Literal[
    "room", "description", "vibe", "access", "state", "models", "text", "tool", "disabled",
    "approval", "link", "equip", "off", "exit", "trigger",
]  # fmt: skip
"""What a step changes, in the order in which steps are done in a room."""

StepAction: TypeAlias = Literal["add", "change", "remove"]

_LISTS: tuple[tuple[StepKind, str], ...] = (
    ("state", "states"), ("disabled", "disabled"), ("approval", "approval"), ("equip", "equip"),
    ("off", "off"),
)  # fmt: skip

_EMPTY = RoomFile(
    description="", vibe="", access="open", states=[], models=[ALL_MODELS], equip=[], off=[],
    disabled=[], approval=[], triggers=[], exits={}, links={},
)  # fmt: skip
"""A new room."""


@dataclass(frozen=True, slots=True)
class RoomStep:
    """One change of a room.

    Attributes:
        name: of what is changed in the room; "" for the room itself or a field of it.
        old, new: the values before and after; "" for none.
    """

    room: str
    kind: StepKind
    name: str
    action: StepAction
    old: str = ""
    new: str = ""

    @property
    def is_removed_thing(self) -> bool:
        """Whether a text or a tool is removed, which can be restored."""
        return self.action == "remove" and self.kind in ("text", "tool")


@dataclass(frozen=True, slots=True)
class Plan:
    """All changes, and what stays although the folders lack it.

    Attributes:
        rooms: ids of the rooms that exist, by name.
        kept: texts and tools that are in a room and not in its folder, as ROOM/NAME.
    """

    steps: tuple[RoomStep, ...]
    rooms: Mapping[str, str]
    kept: tuple[str, ...]


def make_plan(
    conn: Connection, folders: Sequence[RoomFolder], agents: AgentDirectory,
    known_ids: AbstractSet[str], *, prune: bool,
) -> Plan:  # fmt: skip
    """Return what has to change; steps that others need come first.

    Args:
        conn: the world.
        folders: the rooms as they should be.
        agents: for the names of models.
        known_ids: ids of the rooms that who builds may know of: exits to others stay.
        prune: whether texts and tools that a folder lacks are removed.
    """
    steps: list[RoomStep] = []
    known: dict[str, str] = {}
    kept: list[str] = []
    for folder in folders:
        room_id = rooms.find_room_id(conn, folder.name)
        if room_id is None:
            steps.append(RoomStep(folder.name, "room", "", "add"))
            present = RoomFolder(folder.name, _EMPTY)
        else:
            known[folder.name] = room_id
            present = read_room_folder(conn, room_id, agents, known_ids)
        steps += _compare(present, folder, prune=prune)
        if not prune:
            names = [*present.texts.keys() - folder.texts, *present.tools.keys() - folder.tools]
            kept += [f"{folder.name}/{name}" for name in sorted(names)]
    return Plan(tuple(_sort(steps)), known, tuple(kept))


def _sort(steps: list[RoomStep]) -> Iterator[RoomStep]:
    """Yield new rooms first, and last what needs things of other rooms."""
    last = ("equip", "off", "exit", "trigger")
    yield from (step for step in steps if step.kind == "room")
    yield from (step for step in steps if step.kind not in ("room", *last))
    yield from (step for step in steps if step.kind in last)


def _compare(present: RoomFolder, wanted: RoomFolder, *, prune: bool) -> Iterator[RoomStep]:
    name, old, new = wanted.name, present.file, wanted.file
    for kind in ("description", "vibe", "access"):
        before, after = getattr(old, kind) or "", getattr(new, kind)
        if after is not None and after.strip() != before:
            yield RoomStep(name, kind, "", "change", before, after.strip())
    if new.models is not None and sorted(new.models) != old.models:
        yield RoomStep(
            name, "models", "", "change", ", ".join(old.models or ()), ", ".join(sorted(new.models))
        )
    yield from _compare_maps(name, "text", present.texts, wanted.texts, removes=prune)
    yield from _compare_maps(name, "tool", present.tools, wanted.tools, removes=prune)
    yield from _compare_maps(name, "link", old.links or {}, new.links, removes=True)
    for kind, field in _LISTS:
        yield from _compare_lists(name, kind, getattr(old, field), getattr(new, field))
    yield from _compare_maps(name, "exit", old.exits or {}, new.exits, removes=True)
    yield from _compare_triggers(present, wanted)


def _compare_maps(
    room: str, kind: StepKind, old: Mapping[str, str], new: Mapping[str, str] | None, *,
    removes: bool,
) -> Iterator[RoomStep]:  # fmt: skip
    """Yield steps from one map of names to another; none to None."""
    if new is None:
        return
    for name in sorted(new):
        if name not in old:
            yield RoomStep(room, kind, name, "add", "", new[name])
        elif old[name] != new[name]:
            yield RoomStep(room, kind, name, "change", old[name], new[name])
    if removes:
        for name in sorted(old.keys() - new):
            yield RoomStep(room, kind, name, "remove", old[name])


def _compare_lists(
    room: str, kind: StepKind, old: Iterable[str], new: Iterable[str] | None
) -> Iterator[RoomStep]:
    if new is None:
        return
    for name in sorted(set(new) - set(old)):
        yield RoomStep(room, kind, name, "add")
    for name in sorted(set(old) - set(new)):
        yield RoomStep(room, kind, name, "remove")


def _compare_triggers(present: RoomFolder, wanted: RoomFolder) -> Iterator[RoomStep]:
    """Yield triggers to turn on or off; one whose script changes is turned on again."""
    if wanted.file.triggers is None:
        return
    on = set(present.file.triggers or ())
    changed = {
        name
        for name in on
        if (text := f"{TRIGGER_PREFIX}{name}") in wanted.texts
        and wanted.texts[text] != present.texts.get(text)
    }
    for step in _compare_lists(wanted.name, "trigger", on - changed, wanted.file.triggers):
        yield replace(step, action="change") if step.name in changed else step
