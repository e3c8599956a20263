"""Resolution of typed names to things, agents, contexts and bags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from sshwarma.common.near_names import MAX_COMPARED_NAMES, find_near_names
from sshwarma.common.shorten import shorten_name
from sshwarma.tools.names import find_spelled
from sshwarma.verbs.rights import MAKER_RIGHT
from sshwarma.world import equipment, names, rooms, things
from sshwarma.world.access import Right, list_granters, missing_right_error
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, unknown_name_error
from sshwarma.world.ids import HOME_ID, now_ms
from sshwarma.world.missing_rights import explain_granters
from sshwarma.world.reader import SuggestedNames, next_call
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

IN_THIS_ROOM: Final = "me in this room"
"""The context of a model that changes its own equipment while it answers."""


def describe_context(word: str) -> str:
    """Describe a typed context that has something: "in this room", "on @qwen"."""
    places = {"room": "in this room", "me": "on you", IN_THIS_ROOM: "on you in this room"}
    return places.get(word, f"on {word}")


def describe_lost_context(word: str) -> str:
    """Describe a typed context that lost something: "from this room", "from you"."""
    places = {"room": "from this room", "me": "from you", IN_THIS_ROOM: "from you in this room"}
    return places.get(word, f"from {word}")


async def find_thing(caller: Caller, name: str) -> Thing:
    """Find the thing that a name means for the caller.

    In order: `@agent`, `room`, `me`, `home:NAME`, `me:NAME`, `room:NAME`, a thing in the bag of the
    room or of the caller, a qualified name, a room, an agent, or the id of a container.

    Raises:
        NotFound: if no thing that the caller may see has that name.
        Forbidden: if the thing is in a room that the caller may not enter.
    """
    if name.startswith("@"):
        agent = caller.world.agents.find(name)
        return await caller.world.store.read(lambda conn: things.get_live_thing(conn, agent.id))
    thing = await caller.world.store.read(lambda conn: _find_by_name(conn, caller, name))
    if thing is not None and await _is_visible(caller, thing):
        return thing
    known, tools = await _list_known_names(caller, name)
    near = find_near_names(name, known)
    list_call = next_call("{} lists all things here.", "inv show", inventory="all")
    hint = SuggestedNames(tuple(near), tools) if near else list_call
    raise unknown_name_error("thing", name, where="here", hint=hint)


CONTEXT_WORDS: Final = ("room", "me", "defaults", "@agent")


async def find_context(caller: Caller, word: str, choices: Sequence[str] = CONTEXT_WORDS) -> Thing:
    """Find the context that `room`, `me`, `defaults` (new rooms) or `@agent` names.

    `choices` are the words that the verb takes; it may take others itself.

    Raises:
        Invalid: if it is another word.
        NotFound: if no agent has that name.
    """
    if word == "room":
        thing_id = caller.room_id
    elif word == "me":
        thing_id = caller.agent.id
    elif word == "defaults" and "defaults" in choices:
        thing_id = "defaults"
    elif word.startswith("@"):
        thing_id = caller.world.agents.find(word).id
    else:
        raise Invalid(f"Choose one of: {', '.join(choices)} (got {shorten_name(word)}).")
    return await caller.world.store.read(lambda conn: things.get_live_thing(conn, thing_id))


def name_context(caller: Caller, word: str, context: Thing) -> str:
    """Return the word for a context in results; for an answering model, this room."""
    return IN_THIS_ROOM if _is_for_this_room(caller, context) else word


def open_context(
    tx: Change, caller: Caller, context: Thing, wanted: Sequence[Thing]
) -> tuple[Thing, list[Thing]]:
    """Return the context to write a change of equipment in, and what was taken back.

    A model that answers changes its own equipment for its room alone: nobody in another room asked
    for it. What others change of an agent holds in all rooms: what it has for single rooms is taken
    back, of the things `wanted`.
    """
    if _is_for_this_room(caller, context):
        return equipment.ensure_agent_in_room(tx, context.id, caller.room_id), []
    if context.kind != "agent":
        return context, []
    return context, equipment.clear_agent_in_rooms(tx, context.id, wanted)


def _is_for_this_room(caller: Caller, context: Thing) -> bool:
    return caller.question is not None and context.id == caller.agent.id


async def require_maker_or_admin(caller: Caller, thing: Thing, what: str) -> None:
    """Raise unless the caller made the thing or is an admin.

    Raises:
        Forbidden: naming the right and who can change `what`: "the tools of git".
    """
    agents = caller.world.agents
    maker = agents.get(thing.created_by)
    admins = list_granters(Right.ADMIN, agents, {})
    ask = list(dict.fromkeys([*([maker.name] if maker is not None else []), *admins]))
    refusal = missing_right_error(Right.ADMIN, "", ask, f"to change {what}")
    await MAKER_RIGHT.require(caller, thing.created_by, refusal=refusal)


def find_bag_id(caller: Caller, bag: str) -> str:
    """Return the id of the bag that `room`, `me` or `home` names for the caller."""
    return {"room": caller.room_id, "me": caller.agent.id, "home": HOME_ID}[bag]


def list_bag_ids(caller: Caller) -> list[str]:
    """List the bags in which a bare name is looked up: the room's, then the caller's."""
    return [caller.room_id, caller.agent.id]


def _find_by_name(conn: Connection, caller: Caller, name: str) -> Thing | None:
    if name in ("room", "here"):
        return things.get_thing(conn, caller.room_id)
    if name == "me":
        return things.get_thing(conn, caller.agent.id)
    prefix, bare = names.split_bag_name(name)
    if bare != name:
        return things.find_child(conn, find_bag_id(caller, prefix), bare)
    for bag in list_bag_ids(caller):
        thing = things.find_child(conn, bag, name)
        if thing is not None:
            return thing
    thing = next(find_spelled(conn, name), None)
    if thing is not None:
        return thing
    room_id = rooms.find_room_id(conn, name.lower())
    if room_id is not None:
        return things.get_thing(conn, room_id)
    agent = caller.world.agents.find_by_name(name)
    if agent is not None:
        return things.get_thing(conn, agent.id)
    well_known = things.get_thing(conn, name)
    return well_known if well_known and well_known.deleted_at is None else None


async def _list_known_names(caller: Caller, name: str) -> tuple[list[str], frozenset[str]]:
    """List the names that the caller may have meant, in the form of the given name.

    Returns:
        The names, and those of them that are canonical names of tools.

    With a prefix these are the things of its bag; otherwise the things of both bags, exits, rooms,
    agents, and equipped things.
    """
    prefix, bare = names.split_bag_name(name)
    has_prefix = bare != name
    bag_ids = [find_bag_id(caller, prefix)] if has_prefix else list_bag_ids(caller)
    in_bags = await caller.world.store.read(
        lambda conn: [
            thing.name
            for bag_id in bag_ids
            for thing in things.read_children(conn, bag_id, limit=MAX_COMPARED_NAMES)
        ]
    )
    if has_prefix:
        return [f"{prefix}:{known}" for known in in_bags], frozenset()
    load = await caller.loadout()
    tools = frozenset(item.thing.label for item in load.tools)
    known = [
        *in_bags,
        *(way.direction for way in await caller.visible_exits(await caller.room())),
        *(room.name for room in await caller.known_rooms()),
        *(agent.name for agent in caller.world.agents if not agent.retired),
        *(item.thing.label for item in (*load.tools, *load.data)),
    ]
    return known, tools


async def _is_visible(caller: Caller, thing: Thing) -> bool:
    """Return whether the caller may see a thing.

    Things in private rooms and private logs are visible only to agents that may enter these.

    Raises:
        Forbidden: if the thing is in a room that the caller may not enter.
    """
    now = now_ms()
    ancestors = await caller.world.store.read(lambda conn: things.read_ancestors(conn, thing.id))
    for link in (thing, *ancestors):
        if link.id in ("directs", equipment.AGENTS_IN_ROOMS):
            return False
        if link.kind == "room" and link.id != caller.room_id:
            room = await caller.world.room(link.id)
            if not caller.may_know_of(room, now):
                return False
            if link is not thing and Right.ENTER not in caller.rights_in(room, now):
                raise explain_granters(caller.world.agents, Right.ENTER, room)
        if link.kind == "agent" and link is not thing and link.id != caller.agent.id:
            return await caller.may_administer()
    return True
