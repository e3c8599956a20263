"""Tools by their names, places for new tools, and who may change them."""

from __future__ import annotations

from sshwarma.tools.names import NameTable, check_tool_name
from sshwarma.verbs.namespace import check_may_create
from sshwarma.verbs.resolve import find_thing, require_maker_or_admin
from sshwarma.verbs.rights import MAKER_RIGHT, NEW_NAMESPACE_RIGHT, TOOL_RIGHT
from sshwarma.world import namespaces, things
from sshwarma.world.builtin_containers import BUNDLE_KEY, GLOBAL_ID
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound, unknown_name_error
from sshwarma.world.reader import next_call
from sshwarma.world.things import Thing


async def find_tool(caller: Caller, name: str) -> Thing:
    """Find a tool by any of its names, equipped here or visible to the caller."""
    load = await caller.loadout()
    item = NameTable(load.tools).find(name)
    if item is not None:
        tool_id = item.thing.id
        return await caller.world.store.read(lambda conn: things.get_live_thing(conn, tool_id))
    try:
        thing = await find_thing(caller, name)
    except NotFound:
        labels = [entry.thing.label for entry in load.tools]
        raise unknown_name_error(
            "tool", name, known=labels, hint=next_call("{} lists them.", "tool list")
        ) from None
    if thing.kind != "tool":
        raise Invalid(f"{thing.label} is {things.describe_kind(thing.kind)}, not a tool.")
    return thing


async def check_may_decide(caller: Caller, tool: Thing) -> None:
    """Raise unless the caller may change the container of the tool."""
    place_id = tool.parent_id or "world"
    await check_may_change(
        caller, await caller.world.store.read(lambda conn: things.get_live_thing(conn, place_id))
    )


async def check_may_change(caller: Caller, place: Thing) -> None:
    """Raise unless the caller may change the tools of a room, agent or namespace.

    That needs the build right in the room, to be the agent or the maker of the namespace, or the
    admin right.

    Raises:
        Forbidden: if the caller may not.
    """
    if place.kind == "room":
        await TOOL_RIGHT.require(caller, room=await caller.world.room(place.id))
    elif place.kind == "toolset":
        await require_maker_or_admin(caller, place, f"the tools of {place.label}")
    else:
        await MAKER_RIGHT.require(caller, place.id)


async def resolve_new_tool(caller: Caller, name: str) -> tuple[Thing | None, str]:
    """Find the place for a tool of a qualified name; return it with the bare name.

    The place is None if it is a namespace that does not exist yet and that the caller may create.

    Raises:
        Invalid: if the name is not allowed, or the place takes no tools of people.
        Forbidden: if the caller may not add a tool there.
    """
    space, _, bare = name.rpartition(":")
    plain = check_tool_name(bare)
    room = await caller.room()
    if space in ("", "room", room.name):
        place_id = caller.room_id
    elif space in ("me", caller.agent.name):
        place_id = caller.agent.id
    else:
        try:
            namespace = await caller.world.store.read(
                lambda conn: namespaces.find_namespace(conn, space)
            )
        except NotFound:
            await NEW_NAMESPACE_RIGHT.require(caller)
            await check_may_create(caller, space)
            return None, plain
        place_id = namespace.thing.id
    place = await caller.world.store.read(lambda conn: things.get_live_thing(conn, place_id))
    is_open = place.kind in ("room", "agent", "toolset") or place.id == GLOBAL_ID
    if not is_open or BUNDLE_KEY in place.metadata:  # an import would delete what is not in it
        raise Invalid(f"{place.label} holds its own tools; people cannot add tools to it.")
    await check_may_change(caller, place)
    return place, plain
