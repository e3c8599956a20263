"""Carries out the steps of a plan, all in one change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from sshwarma.building.plan import Plan, RoomStep, StepKind
from sshwarma.building.read_room import ALL_MODELS
from sshwarma.common.limits import (
    MAX_DESCRIPTION_CHARACTERS,
    MAX_ROOM_MODELS,
    MAX_ROOM_STATES,
    MAX_URL_CHARACTERS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import join_with_rest
from sshwarma.lua_tools.creation import store_tool
from sshwarma.lua_tools.declaration import parse_declaration
from sshwarma.lua_tools.turn_on import turn_on_now
from sshwarma.world import (
    bag_reads,
    equipment,
    exits,
    names,
    namespace_fields,
    namespaces,
    overrides,
    rooms,
    text_history,
    things,
    triggers,
)
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound, WorldError, too_long_error
from sshwarma.world.ids import PERMANENT_ROOMS
from sshwarma.world.names import TRIGGER_PREFIX
from sshwarma.world.store import Change
from sshwarma.world.thing_size import check_thing_size
from sshwarma.world.things import Thing

MAX_NAMED_THINGS: Final = 10
"""Names of removed things in the notice of a build."""


@dataclass(slots=True)
class _Work:
    """A plan while it is carried out.

    Attributes:
        is_open: whether the caller may see what a thing contains.
        rooms: ids by name, also of new rooms.
        left: how many things a room may still get, by its id, once they were counted.
    """

    tx: Change
    caller: Caller
    is_open: Callable[[Thing], bool]
    rooms: dict[str, str]
    left: dict[str, int] = field(default_factory=dict)

    def room_id(self, step: RoomStep) -> str:
        """Return the id of the room of a step."""
        return self.rooms[step.room]

    def child(self, step: RoomStep, kind: str) -> Thing:
        """Return the thing of a room that a step names.

        Raises:
            NotFound: if the room has no such thing.
        """
        found = things.find_child(self.tx.conn, self.room_id(step), step.name, kind)
        if found is None:
            raise NotFound(f"There is no {kind} {step.name}.")
        return found


def apply_plan(tx: Change, caller: Caller, plan: Plan, is_open: Callable[[Thing], bool]) -> None:
    """Carry out a plan; tell each room of it.

    Args:
        tx: the change.
        caller: who builds.
        plan: what to do.
        is_open: whether the caller may see what a thing contains.

    Raises:
        WorldError: naming the step that cannot be done; then nothing is.
    """
    work = _Work(tx, caller, is_open, dict(plan.rooms))
    for step in plan.steps:
        try:
            _STEPS[step.kind](work, step)
        except WorldError as error:
            what = f"{step.kind} {step.name}".rstrip()
            error.message = f"{step.room}: {what}: {error.message}"
            raise
    for name in dict.fromkeys(step.room for step in plan.steps):
        steps = [step for step in plan.steps if step.room == name]
        changes = "1 change" if len(steps) == 1 else f"{len(steps)} changes"
        removed = [step.name for step in steps if step.is_removed_thing]
        more = f"; removed {join_with_rest(removed, MAX_NAMED_THINGS)}" if removed else ""
        notice = f"built the room from a folder: {changes}{more}"
        caller.with_room(work.rooms[name]).append_notice(tx, notice)


def _make_room(work: _Work, step: RoomStep) -> None:
    work.rooms[step.room] = rooms.create_room(work.tx, step.room, work.caller.agent).id


def _set_description(work: _Work, step: RoomStep) -> None:
    _check_length(step)
    things.update_thing(work.tx, work.room_id(step), description=step.new or None)


def _set_vibe(work: _Work, step: RoomStep) -> None:
    _check_length(step)
    things.set_metadata(work.tx, work.room_id(step), vibe=step.new or None)


def _check_length(step: RoomStep) -> None:
    if len(step.new) > MAX_DESCRIPTION_CHARACTERS:
        raise too_long_error("text", len(step.new), MAX_DESCRIPTION_CHARACTERS)


def _set_access(work: _Work, step: RoomStep) -> None:
    if work.room_id(step) in PERMANENT_ROOMS and step.new != "open":
        raise Conflict("This room is always open to everyone.")
    things.set_metadata(work.tx, work.room_id(step), access=step.new)


def _set_state(work: _Work, step: RoomStep) -> None:
    if not namespace_fields.STATE_NAME_PATTERN.fullmatch(step.name):
        raise Invalid("A state is a lower-case letter, then letters, digits, . _ or -.")
    room = things.get_live_thing(work.tx.conn, work.room_id(step))
    states = set(namespaces.read_metadata_words(room, "states")) - {step.name}
    if step.action == "add":
        states.add(step.name)
    if len(states) > MAX_ROOM_STATES:
        raise Invalid(f"{with_limit('Too many states', MAX_ROOM_STATES)}.")
    things.set_metadata(work.tx, room.id, states=sorted(states) or None)


def _set_models(work: _Work, step: RoomStep) -> None:
    words = [word for word in step.new.split(", ") if word]
    stored: list[str] | None = None
    if words != [ALL_MODELS]:
        stored = sorted({work.caller.world.agents.find_model(word).id for word in words})
        if len(stored) > MAX_ROOM_MODELS:
            raise Invalid(f"{with_limit('Too many models', MAX_ROOM_MODELS)}.")
    things.set_metadata(work.tx, work.room_id(step), models=stored)


def _set_text(work: _Work, step: RoomStep) -> None:
    if step.action == "remove":
        things.delete_thing(work.tx, work.child(step, "data"))
        return
    check_thing_size(work.caller.limits, step.new)
    if step.action == "change":
        text_history.change_text(
            work.tx, work.child(step, "data"), step.new, by=work.caller.agent.id
        )
    else:
        _create(work, step, "data", content=step.new)


def _set_link(work: _Work, step: RoomStep) -> None:
    if step.action == "remove":
        things.delete_thing(work.tx, work.child(step, "reference"))
        return
    if len(step.new) > MAX_URL_CHARACTERS or not urlsplit(step.new).scheme:
        raise Invalid("This is not a URL.", hint="Use a URL such as https://example.org/page.")
    if step.action == "change":
        things.update_thing(work.tx, work.child(step, "reference").id, uri=step.new)
    else:
        _create(work, step, "reference", uri=step.new)


def _create(
    work: _Work, step: RoomStep, kind: things.ThingKind, *,
    content: str | None = None, uri: str | None = None,
) -> None:  # fmt: skip
    """Make a thing in a room.

    Raises:
        Conflict: if the room has as many as it can.
    """
    room_id, limit = work.room_id(step), work.caller.limits.bag_things
    if not work.left.get(room_id):  # to count for each of many takes longer than to make it
        work.left[room_id] = bag_reads.check_bag_capacity(work.tx.conn, room_id, limit)
    work.left[room_id] -= 1
    things.create_thing(
        work.tx, room_id, kind, names.check_thing_name(step.name), content=content, uri=uri,
        created_by=work.caller.agent.id,
    )  # fmt: skip


def _set_tool(work: _Work, step: RoomStep) -> None:
    room = things.get_live_thing(work.tx.conn, work.room_id(step))
    if step.action == "remove":
        things.delete_thing(work.tx, work.child(step, "tool"))
        return
    check_thing_size(work.caller.limits, step.new)
    store_tool(
        work.tx, bag=room, name=step.name, source=step.new,
        declaration=parse_declaration(step.new), by=work.caller.agent.id,
    )  # fmt: skip


def _set_disabled(work: _Work, step: RoomStep) -> None:
    decision = False if step.action == "add" else None
    overrides.set_override(work.tx, work.child(step, "tool"), enabled=decision)


def _set_approval(work: _Work, step: RoomStep) -> None:
    decision = True if step.action == "add" else None
    overrides.set_override(work.tx, work.child(step, "tool"), requires_confirmation=decision)


def _find_equippable(work: _Work, step: RoomStep) -> Thing:
    """Return the thing that a label names: an own text, or one that is open.

    Raises:
        NotFound: if there is no such thing.
    """
    conn, room_id = work.tx.conn, work.room_id(step)
    for thing in equipment.match_things(conn, step.name, [room_id]):
        chain = things.read_ancestors(conn, thing.id)
        is_visible = all(one.id in work.rooms.values() or work.is_open(one) for one in chain)
        if step.name in (thing.label, thing.name) and is_visible:
            return thing
    raise NotFound("There is nothing of that name.")


def _set_equipped(work: _Work, step: RoomStep) -> None:
    thing = _find_equippable(work, step)
    if step.action == "add":
        equipment.equip_things(work.tx, work.room_id(step), [thing])
    else:
        equipment.unequip_things(work.tx, work.room_id(step), [thing])


def _set_off(work: _Work, step: RoomStep) -> None:
    thing = _find_equippable(work, step)
    if step.action == "add":
        equipment.switch_off_things(work.tx, work.room_id(step), [thing])
    else:
        equipment.equip_things(work.tx, work.room_id(step), [thing])


def _set_exit(work: _Work, step: RoomStep) -> None:
    direction = names.parse_direction(step.name)
    if step.action == "remove":
        exits.close_exit(work.tx, work.room_id(step), direction)
        return
    target = work.rooms.get(step.new) or rooms.find_room_id(work.tx.conn, step.new)
    if target is None:
        raise NotFound(f"There is no room {step.new}.")
    exits.open_exit(work.tx, work.room_id(step), direction, target, work.caller.agent.id)


def _set_trigger(work: _Work, step: RoomStep) -> None:
    room_id, conn = work.room_id(step), work.tx.conn
    if step.action == "remove":
        found = triggers.find_trigger(conn, room_id, step.name)
        triggers.turn_off(work.tx, found.id, f"{work.caller.agent.name} turned it off")
        return
    script = things.find_child(conn, room_id, f"{TRIGGER_PREFIX}{step.name}", "data")
    if script is None:
        raise NotFound(f"There is no text {TRIGGER_PREFIX}{step.name}.")
    turn_on_now(work.tx, work.caller, script)


_STEPS: Final[Mapping[StepKind, Callable[[_Work, RoomStep], None]]] = {
    "room": _make_room,
    "description": _set_description,
    "vibe": _set_vibe,
    "access": _set_access,
    "state": _set_state,
    "models": _set_models,
    "text": _set_text,
    "tool": _set_tool,
    "disabled": _set_disabled,
    "approval": _set_approval,
    "link": _set_link,
    "equip": _set_equipped,
    "off": _set_off,
    "exit": _set_exit,
    "trigger": _set_trigger,
}
