"""The verb rename: another name for this room, a text or a tool."""

from __future__ import annotations

from sshwarma.lua_tools import creation
from sshwarma.lua_tools.rename import rename_tool, rename_tools_of
from sshwarma.tools.names import check_tool_name
from sshwarma.verbs.arguments import ThingName, Word
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import find_thing
from sshwarma.verbs.rights import BAG_RIGHT, MAKER_RIGHT, ROOM_NAME_RIGHT, TOOL_RIGHT
from sshwarma.verbs.tool_access import check_may_decide
from sshwarma.verbs.views import Confirmation
from sshwarma.world import agents, names, rooms, text_history, things, triggers
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.ids import HOME_ID, PERMANENT_ROOMS
from sshwarma.world.reader import next_call
from sshwarma.world.rooms import Room
from sshwarma.world.store import Change
from sshwarma.world.things import Thing


@verb(
    "rename",
    section="Building",
    needs=Right.ENTER,
    also_needs=(ROOM_NAME_RIGHT, BAG_RIGHT, TOOL_RIGHT, MAKER_RIGHT),
    scope=TokenScope.BUILD,
    tool=False,
    examples=("/rename room studio", "/rename todo plan", "/rename dice coin"),
)
async def rename(caller: Caller, name: ThingName, new: Word) -> Confirmation:
    """Give this room, a text or a tool another name.

    Equipment stays as it is; a trigger is off. The tools of a room are renamed with it. Addresses
    that have the old name, as of git and sftp, lead nowhere.

    Args:
        name: `room` for this room, or a text or tool.
        new: the new name.
    """
    if name.lower() in ("room", (await caller.room()).name):
        return await _rename_room(caller, await caller.room(), new.lower())
    thing = await find_thing(caller, name)
    if creation.is_lua_tool(thing):
        await check_may_decide(caller, thing)
        check_tool_name(new)
        renamed = await caller.change(lambda tx: rename_tool(tx, _get_same(tx, thing), new))
        return _confirm(thing.label, renamed.label, renamed.label, thing.name)
    if thing.kind != "data":
        hint = next_call("{} renames a skill.", "skill rename", name="NAME", new="NEW")
        if thing.kind == "room":
            hint = next_call("Go there first: {}", "join", room=thing.name)
        kind = things.describe_kind(thing.kind)
        raise Invalid(
            f"{thing.label} is {kind}: this room, texts and tools are renamed.", hint=hint
        )
    return await _rename_text(caller, thing, names.check_thing_name(new))


async def _rename_room(caller: Caller, here: Room, new: str) -> Confirmation:
    """Rename the caller's room, its tools, and where models name it."""
    await ROOM_NAME_RIGHT.require(caller, room=here)
    if here.id in PERMANENT_ROOMS:
        raise Conflict(f"{here.name} cannot be renamed.")
    models = [one for one in caller.world.agents if here.name in one.rooms]

    def work(tx: Change) -> None:
        room = rooms.rename_room(tx, here, new, caller.agent)
        rename_tools_of(tx, room)
        for model in models:
            agents.update_agent(tx, model.id, rooms=sorted({*model.rooms, new} - {here.name}))
        caller.append_notice(tx, f"renamed the room {here.name} to {new}")

    await caller.change(work)
    return _confirm(here.name, new, "room", here.name)


async def _rename_text(caller: Caller, thing: Thing, new: str) -> Confirmation:
    if thing.parent_id in (caller.room_id, HOME_ID):
        await BAG_RIGHT.require(caller, room=await caller.world.room(thing.parent_id))
    elif thing.parent_id != caller.agent.id:
        raise Invalid(f"{thing.label} is neither in this room nor in your bag.")

    def work(tx: Change) -> None:
        text = _get_same(tx, thing)
        if things.find_child(tx.conn, thing.parent_id or "", new) is not None:
            raise Conflict(f"There is a thing {new} there already.")
        triggers.stop_renamed(tx, text)
        things.update_thing(tx, text.id, name=new)
        text_history.rename_key(tx, text.parent_id or "", text.name, new)
        if thing.parent_id == caller.room_id:
            caller.append_notice(tx, f"renamed {thing.name} to {new}")

    await caller.change(work)
    return _confirm(thing.name, new, new, thing.name)


def _get_same(tx: Change, thing: Thing) -> Thing:
    """Return a thing as it is now.

    Raises:
        Conflict: if it has another name by now.
    """
    present = things.get_live_thing(tx.conn, thing.id)
    if present.label != thing.label:
        raise Conflict(f"{thing.label} was renamed meanwhile.")
    return present


def _confirm(old: str, new: str, name: str, back: str) -> Confirmation:
    return Confirmation(
        f"{old} is {new} now.", next=next_call("{} takes it back.", "rename", name=name, new=back)
    )
