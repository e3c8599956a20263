"""The contents of bags: the verbs put, edit, link, drop, restore and move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from sshwarma.common.limits import MAX_URL_CHARACTERS
from sshwarma.common.near_names import MAX_COMPARED_NAMES, suggest_near_names
from sshwarma.common.shorten import shorten_name
from sshwarma.terminal.text import Block, block, line
from sshwarma.tools.names import claim_tool_name
from sshwarma.verbs.arguments import Arg, TextAfterEquals, Word
from sshwarma.verbs.edit_draft import EditDraft, make_edit_draft
from sshwarma.verbs.registry import verb
from sshwarma.verbs.resolve import find_bag_id, find_thing, list_bag_ids
from sshwarma.verbs.rights import BAG_RIGHT, BagRight
from sshwarma.verbs.room import suggest_room_restore
from sshwarma.verbs.script_notes import describe_scripts, describe_trigger
from sshwarma.verbs.thing_completion import (
    DroppableName,
    DroppedName,
    MovableName,
    ReferenceName,
    TextName,
)
from sshwarma.verbs.views import Confirmation, format_count, view
from sshwarma.world import bag_reads, names, text_history, things
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound, too_long_error, unknown_name_error
from sshwarma.world.ids import HOME_ID
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change
from sshwarma.world.thing_size import check_thing_size
from sshwarma.world.things import Thing

BagName: TypeAlias = Annotated[str, Arg(choices=("room", "me"))]
TargetBag: TypeAlias = Annotated[str, Arg(particle="to", choices=("me", "room", "home"))]


@dataclass(frozen=True, slots=True)
class PutResult:
    """A thing that was stored in a bag.

    Attributes:
        bag: name of the room or agent that contains it.
        made: whether it is new; False if an existing thing was changed.
        size: bytes of its text in UTF-8.
        note: why a script will not run, or not as one may think; "" for every other text.
    """

    name: str
    bag: str
    made: bool
    size: int
    note: str = ""


@view(PutResult)
def draw_put_result(result: PutResult) -> Block:
    """Draw the name, bag and size of a thing that was stored."""
    action = "Made" if result.made else "Changed"
    return block(
        line(
            f"{action} ",
            ("thing", result.name),
            f" in {result.bag} ({format_count(result.size, 'byte')}).",
        ),
        *([line(("warn", result.note), hang=2)] if result.note else []),
    )


@verb(
    "put",
    section="Building",
    needs=Right.ENTER,
    also_needs=(BagRight("name", is_name=True),),
    examples=(
        "/put prompt:code-style = Prefer small functions.",
        "/put me:todo = water the plants",
    ),
    scope=TokenScope.BUILD,
)
async def put(caller: Caller, name: TextName, text: TextAfterEquals) -> PutResult:
    """Create or change a text.

    Stores it in the bag of this room; me:NAME in your own, home:NAME in the shared room.

    For people:
        From a shell: ssh HOST put NAME < file

    Args:
        name: name of the thing: letters and digits, after the first also . _ : or -.
        text: the new content.
    """
    size = check_thing_size(caller.limits, text)
    bag_id, bag_name, plain = await _find_bag_of_name(caller, name)
    caller.charge_text_volume(size)

    def store(tx: Change) -> bool:
        thing = things.find_child(tx.conn, bag_id, plain, "data")
        if thing is not None:
            text_history.change_text(tx, thing, text, by=caller.agent.id)
            announce(tx, "changed")
            return False
        bag_reads.check_bag_capacity(tx.conn, bag_id, caller.limits.bag_things)
        things.create_thing(tx, bag_id, "data", plain, content=text, created_by=caller.agent.id)
        announce(tx, "made")
        return True

    def announce(tx: Change, done: str) -> None:
        if bag_id == caller.room_id:
            caller.append_notice(tx, f"{done} {plain}")

    note = await describe_scripts(caller, [(plain, text)]) or describe_trigger(plain)
    return PutResult(plain, bag_name, await caller.change(store), size, note)


async def _find_bag_of_name(caller: Caller, name: str) -> tuple[str, str, str]:
    """Find the bag that the name of a thing to store means.

    Returns:
        The id of the bag, its name for people, and the name of the thing in it.

    Raises:
        Invalid: if the name is not valid.
    """
    bag, bare = names.split_bag_name(name)
    plain = names.check_thing_name(bare)
    if bag == "me":
        return caller.agent.id, "your bag", plain
    room = await (caller.world.room(HOME_ID) if bag == "home" else caller.room())
    return room.id, room.name, plain


@verb(
    "edit",
    section="Building",
    needs=Right.ENTER,
    also_needs=(BAG_RIGHT,),
    examples=("/edit prompt:code-style",),
    tool=False,
    ssh_only=True,
    in_console=True,
    scope=TokenScope.BUILD,
)
async def edit(caller: Caller, name: TextName) -> EditDraft:
    """Change a text in the line editor.

    Puts its text at the prompt as a /put line to edit.

    Args:
        name: a text in this room, in your bag, or home:NAME; a new name starts an empty one.
    """
    try:
        thing = await find_thing(caller, name)
    except NotFound:
        bag_id, _, _ = await _find_bag_of_name(caller, name)
        await _require_bag(caller, bag_id)
        return make_edit_draft(caller, name, "", f"/put {name}", is_new=True)
    if thing.kind != "data":
        raise Invalid(
            f"{thing.label} is {things.describe_kind(thing.kind)}; only data can be edited."
        )
    prefixes = {HOME_ID: "home:", caller.room_id: "", caller.agent.id: "me:"}
    if thing.parent_id not in prefixes:
        raise Invalid(
            f"{thing.name} is not in this room, in home or in your bag.",
            hint="Go to its room to edit it.",
        )
    full_name = prefixes[thing.parent_id] + thing.name
    await _require_bag(caller, thing.parent_id)
    return make_edit_draft(caller, thing.name, thing.content or "", f"/put {full_name}")


@verb(
    "link",
    section="Building",
    needs=Right.BUILD,
    examples=("/link design-doc https://example.org/design",),
)
async def link(caller: Caller, name: ReferenceName, uri: Word) -> PutResult:
    """Make a reference to a URL.

    Args:
        name: name of the reference.
        uri: the URL, such as https://example.org/page.
    """
    plain = names.check_thing_name(name)
    if len(uri) > MAX_URL_CHARACTERS:
        raise too_long_error("uri", len(uri), MAX_URL_CHARACTERS)
    if not _is_url(uri):
        raise Invalid(
            f"{shorten_name(uri)!a} is not a URL.",
            hint="Use a URL such as https://example.org/page.",
        )

    def store(tx: Change) -> bool:
        reference = things.find_child(tx.conn, caller.room_id, plain, "reference")
        if reference is not None:
            things.update_thing(tx, reference.id, uri=uri)
            return False
        bag_reads.check_bag_capacity(tx.conn, caller.room_id, caller.limits.bag_things)
        things.create_thing(
            tx, caller.room_id, "reference", plain, uri=uri, created_by=caller.agent.id
        )
        return True

    is_new = await caller.change(store, f"linked {plain} → {uri}")
    return PutResult(plain, (await caller.room()).name, is_new, len(uri))


@verb(
    "drop",
    section="Building",
    needs=Right.ENTER,
    also_needs=(BagRight("bag"),),
    examples=("/drop room prompt:local", "/drop me todo"),
    scope=TokenScope.BUILD,
)
async def drop(caller: Caller, bag: BagName, name: DroppableName) -> Confirmation:
    """Delete a thing from a bag.

    It must be in that bag itself. It can be restored.

    Args:
        bag: room or me.
        name: the thing.
    """
    bag_id = find_bag_id(caller, bag)

    def work(tx: Change) -> None:
        thing = things.find_child(tx.conn, bag_id, name)
        if thing is None:
            place = "in this room" if bag == "room" else "in your bag"
            thing_names = [child.name for child in things.read_children(tx.conn, bag_id)]
            raise unknown_name_error(
                "thing",
                name,
                where=place,
                known=thing_names,
                hint=next_call("{} lists what is there.", "inv show"),
            )
        if thing.kind in ("room", "agent", "container"):
            raise Invalid(f"{name} is of the kind {thing.kind}, which cannot be dropped.")
        things.delete_thing(tx, thing)

    notice = f"dropped {name}" if bag == "room" else ""
    await caller.change(work, notice)
    return Confirmation(f"Dropped {name}.", next_call("{} brings it back.", "restore", name=name))


@verb(
    "restore",
    section="Building",
    needs=Right.ENTER,
    also_needs=(BAG_RIGHT,),
    examples=("/restore prompt:local",),
    scope=TokenScope.BUILD,
)
async def restore(caller: Caller, name: DroppedName) -> Confirmation:
    """Bring back a thing that was dropped.

    Restores the newest dropped thing of that name from the bag of this room or from yours.

    Args:
        name: the thing; me:NAME in your bag, home:NAME in the shared room.
    """
    bag, bare = names.split_bag_name(name)
    bags = [find_bag_id(caller, bag)] if bag in ("me", "home") else list_bag_ids(caller)
    thing = await caller.world.store.read(
        lambda conn: bag_reads.find_last_deleted(conn, bags, bare)
    )
    if thing is None:
        dropped = await caller.world.store.read(
            lambda conn: bag_reads.read_deleted_names(conn, bags, MAX_COMPARED_NAMES)
        )
        raise NotFound(
            f"Nothing named {shorten_name(name)} was dropped here.",
            hint=await suggest_room_restore(caller, bare) or suggest_near_names(bare, dropped),
        )
    name = thing.name
    await _require_bag(caller, thing.parent_id or "")
    notice = f"restored {name}" if thing.parent_id == caller.room_id else ""

    def work(tx: Change) -> None:
        if thing.kind == "tool":
            claim_tool_name(tx, thing.label)
        things.restore_thing(tx, thing)

    await caller.change(work, notice)
    return Confirmation(f"Restored {name}.")


@verb(
    "move",
    section="Building",
    needs=Right.ENTER,
    also_needs=(BagRight("to"), BAG_RIGHT),
    examples=("/move prompt:style to home", "/move todo to me"),
    scope=TokenScope.BUILD,
)
async def move(caller: Caller, name: MovableName, to: TargetBag) -> Confirmation:
    """Move a thing to another bag.

    Args:
        name: a thing in this room, in your bag, or home:NAME.
        to: me, room or home.
    """
    thing = await find_thing(caller, name)
    await _check_may_take(caller, thing)
    bag_id = find_bag_id(caller, to)
    if thing.parent_id == bag_id:
        raise Conflict(f"{thing.name} is there already.")

    def carry(tx: Change) -> None:
        if things.get_live_thing(tx.conn, thing.id).parent_id != thing.parent_id:
            raise NotFound(f"{thing.name} was moved just now.")
        bag_reads.check_bag_capacity(tx.conn, bag_id, caller.limits.bag_things)
        things.move_thing(tx, thing.id, bag_id)

    notice = f"moved {thing.name} to {to}" if thing.parent_id == caller.room_id else ""
    await caller.change(carry, notice)
    target = {"me": "your bag", "room": "this room"}.get(to, to)
    return Confirmation(f"Moved {thing.name} to {target}.")


async def _check_may_take(caller: Caller, thing: Thing) -> None:
    if thing.kind in ("room", "agent", "container", "mcp", "tool", "toolset"):
        raise Invalid(
            f"{thing.label} is {things.describe_kind(thing.kind)}, which cannot be moved."
        )
    if thing.parent_id not in (caller.agent.id, caller.room_id, HOME_ID):
        raise Invalid(f"{thing.name} is not in this room, in home, or in your bag.")
    await _require_bag(caller, thing.parent_id)


async def _require_bag(caller: Caller, bag_id: str) -> None:
    """Raise Forbidden unless the caller may change things in its bag or a room's."""
    room = None if bag_id == caller.agent.id else await caller.world.room(bag_id)
    await BAG_RIGHT.require(caller, bag_id, room)


def _is_url(uri: str) -> bool:
    if not uri.isprintable():
        return False
    try:
        return bool(urlsplit(uri).scheme)
    except ValueError:  # brackets that are no IPv6 address
        return False
