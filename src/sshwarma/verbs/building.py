"""Building: a room's text and exits, and the things in bags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from sqlalchemy import Connection, func, select

from sshwarma.terminal.text import Block, block, line
from sshwarma.tools.names import claim
from sshwarma.verbs.arguments import Arg, Direction, ExitName, Flag, RoomName, Text, ThingName, Word
from sshwarma.verbs.reference import bags, find_thing
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import view
from sshwarma.world import exits, names, things
from sshwarma.world.access import Right, Scope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, NotFound
from sshwarma.world.schema import things as things_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

TEXT_LIMIT = 4_000
"""Characters of a description or a vibe: they are in every look and in every model's context."""


@dataclass(frozen=True, slots=True)
class PortalMade:
    direction: str
    to: str
    back: str | None = None
    replaced: str | None = None
    back_replaced: str | None = None


@view(PortalMade)
def _(made: PortalMade) -> Block:
    lines = [line(f"Created exit: {made.direction} → ", ("room", made.to))]
    if made.replaced:
        lines.append(line(("dim", f"It replaced the exit to {made.replaced}.")))
    if made.back:
        lines.append(line(f"And the way back: {made.back}"))
        if made.back_replaced:
            lines.append(line(("dim", f"That replaced the exit to {made.back_replaced}.")))
    return block(*lines)


@verb(
    "portal",
    group="Building",
    needs=Right.BUILD,
    examples=("/portal north studio", "/portal up attic --both"),
    tool=False,
)
async def portal(
    caller: Caller, direction: Direction, to: RoomName, *, both: Flag = False
) -> PortalMade:
    """Open an exit from this room to another

    One way, unless --both. A second portal in a direction replaces the first and says so.

    direction: n s e w u d ne nw se sw in out, or a name of your own.
    to: the room it leads to.
    both: open the way back too; for that you must be a builder there as well.
    """
    here = await caller.room()
    way = names.direction(direction)
    target = await caller.room_named(to)
    await caller.require(Right.ENTER, target)
    back = names.opposite(way)
    if both:
        await caller.require(Right.BUILD, target)
        if back is None:
            raise Invalid(
                f"{way} has no opposite, so --both cannot name the way back.",
                hint=f"Open it from {target.name} with /portal.",
            )

    def open_both(tx: Change) -> tuple[exits.Exit | None, exits.Exit | None]:
        forth = exits.open_exit(tx, here.id, way, target.id, caller.agent.id)
        behind = None
        if both and back is not None:
            behind = exits.open_exit(tx, target.id, back, here.id, caller.agent.id)
        return forth, behind

    replaced, back_replaced = await caller.change(
        open_both, f"opened an exit: {way} → {target.name}"
    )
    return PortalMade(
        way,
        target.name,
        f"{back} → {here.name} (from {target.name})" if both else None,
        replaced.to_name if replaced else None,
        back_replaced.to_name if back_replaced else None,
    )


@dataclass(frozen=True, slots=True)
class Done:
    """Something small was done; the sentence says what."""

    text: str


@view(Done)
def _(done: Done) -> Block:
    return block(done.text)


@verb("unportal", group="Building", needs=Right.BUILD, examples=("/unportal north",), tool=False)
async def unportal(caller: Caller, direction: ExitName) -> Done:
    """Close an exit of this room

    direction: the exit to close.
    """
    way = names.direction(direction)
    gone = await caller.change(
        lambda tx: exits.close_exit(tx, caller.room_id, way), f"closed the exit {way}"
    )
    return Done(f"Closed exit: {gone.direction} → {gone.to_name}")


@dataclass(frozen=True, slots=True)
class RoomText:
    """A text of the room: its vibe, its description, or a topic of its own."""

    room: str
    what: str
    text: str
    changed: bool


@view(RoomText)
def _(result: RoomText) -> Block:
    state = "is now" if result.changed else "is"
    if not result.text:
        return block(line("The ", f"{result.what} of ", ("room", result.room), f" {state} empty."))
    return block(
        line(
            "The ",
            f"{result.what} of ",
            ("room", result.room),
            f" {state}: ",
            ("text", result.text),
            hang=2,
        )
    )


@verb(
    "vibe",
    group="Building",
    needs=Right.ENTER,
    examples=("/vibe", "/vibe quiet, focused"),
    default=True,
    scope=Scope.BUILD,
)
async def vibe(caller: Caller, text: Text | None = None) -> RoomText:
    """Get/set room vibe

    The mood of the room in a line. Everybody sees it in /look, models in their context.

    text: the new vibe; left out, the present one is shown; - empties it.
    """
    room = await caller.room()
    if text is None:
        return RoomText(room.name, "vibe", room.vibe, changed=False)
    await caller.require(Right.BUILD)
    new = _room_text(text)
    await caller.change(
        lambda tx: things.set_metadata(tx, room.id, vibe=new or None), _set_to("vibe", new)
    )
    return RoomText(room.name, "vibe", new, changed=True)


@verb(
    "describe",
    group="Building",
    needs=Right.ENTER,
    examples=("/describe", "/describe A long bench under north light."),
    scope=Scope.BUILD,
)
async def describe(caller: Caller, text: Text | None = None) -> RoomText:
    """Get/set room description

    text: the new description; left out, the present one is shown; - empties it.
    """
    room = await caller.room()
    if text is None:
        return RoomText(room.name, "description", room.description, changed=False)
    await caller.require(Right.BUILD)
    new = _room_text(text)
    await caller.change(
        lambda tx: things.change(tx, room.id, description=new or None),
        _set_to("description", new),
    )
    return RoomText(room.name, "description", new, changed=True)


@dataclass(frozen=True, slots=True)
class Put:
    name: str
    bag: str
    made: bool
    size: int


@view(Put)
def _(result: Put) -> Block:
    what = "Made" if result.made else "Changed"
    return block(
        line(f"{what} ", ("thing", result.name), f" in {result.bag} ({result.size} bytes).")
    )


@verb(
    "put",
    group="Building",
    needs=Right.ENTER,
    examples=(
        "/put prompt:code-style = Prefer small functions.",
        "/put me:todo = water the plants",
    ),
    scope=Scope.BUILD,
)
async def put(
    caller: Caller, name: Word, text: Annotated[str, Arg("text", rest=True, particle="=")]
) -> Put:
    """Create or change a data thing

    It goes into this room's bag; me:NAME into your own. From a shell: ssh HOST put NAME < file

    name: letters, digits and . _ : - after the first.
    text: its whole content.
    """
    mine = name.startswith("me:")
    plain = names.check_thing_name(name.removeprefix("me:").removeprefix("room:"))
    if not mine:
        await caller.require(Right.BUILD)
    bag_id = caller.agent.id if mine else caller.room_id
    bag_name = "your bag" if mine else (await caller.room()).name
    size = len(text.encode())
    if size > caller.limits.thing_bytes:
        raise Invalid(f"That is {size} bytes; a thing holds at most {caller.limits.thing_bytes}.")

    def store(tx: Change) -> bool:
        known = things.child(tx.conn, bag_id, plain, "data")
        if known is not None:
            things.change(tx, known.id, content=text)
            return False
        _room_for_one(tx.conn, bag_id, caller.limits.bag_things)
        things.create(tx, bag_id, "data", plain, content=text, created_by=caller.agent.id)
        return True

    told = "" if mine else f"put {plain}"
    return Put(plain, bag_name, await caller.change(store, told), size)


@dataclass(frozen=True, slots=True)
class Edit:
    """A thing's text, to be put back changed. A terminal opens `line` in its editor."""

    name: str
    text: str
    line: str


@view(Edit)
def _(result: Edit) -> Block:
    return block(
        line(
            "Editing ",
            ("thing", result.name),
            ": Enter stores it, Alt-Enter starts a new line, Ctrl-C leaves it as it was.",
        )
    )


@verb(
    "edit",
    group="Building",
    needs=Right.ENTER,
    examples=("/edit prompt:code-style",),
    tool=False,
    scope=Scope.BUILD,
)
async def edit(caller: Caller, name: ThingName) -> Edit:
    """Change a data thing in the line editor

    Brings its text to the prompt as a /put, ready to be changed.

    name: a data thing in this room or in your bag; a new name starts an empty one.
    """
    try:
        thing = await find_thing(caller, name)
    except NotFound:
        names.check_thing_name(name.removeprefix("me:"))
        return Edit(name, "", f"/put {name} = ")
    if thing.kind != "data":
        raise Invalid(f"{thing.label} is a {thing.kind}; only data can be edited.")
    if thing.parent_id not in bags(caller):
        raise Invalid(
            f"{thing.name} is not in this room or in your bag.", hint="Go to its room to edit it."
        )
    prefix = "me:" if thing.parent_id == caller.agent.id else ""
    return Edit(
        thing.name, thing.content or "", f"/put {prefix}{thing.name} = {thing.content or ''}"
    )


@verb(
    "link",
    group="Building",
    needs=Right.BUILD,
    examples=("/link design-doc https://example.org/design",),
)
async def link(caller: Caller, name: Word, uri: Word) -> Put:
    """Make a reference to something elsewhere

    name: what to call it.
    uri: its address, such as https://example.org/page.
    """
    plain = names.check_thing_name(name)
    if not _is_address(uri):
        raise Invalid(f"{uri[:60]!a} is not an address.", hint="As in https://example.org/page")

    def store(tx: Change) -> bool:
        known = things.child(tx.conn, caller.room_id, plain, "reference")
        if known is not None:
            things.change(tx, known.id, uri=uri)
            return False
        _room_for_one(tx.conn, caller.room_id, caller.limits.bag_things)
        things.create(tx, caller.room_id, "reference", plain, uri=uri, created_by=caller.agent.id)
        return True

    made = await caller.change(store, f"put {plain} → {uri}")
    return Put(plain, (await caller.room()).name, made, len(uri))


@verb(
    "drop",
    group="Building",
    needs=Right.ENTER,
    examples=("/drop room prompt:local", "/drop me todo"),
    scope=Scope.BUILD,
)
async def drop(caller: Caller, bag: Literal["room", "me"], name: Word) -> Done:
    """Delete a thing from a bag

    It must be in that bag itself. /restore brings it back.

    bag: room or me.
    name: the thing.
    """
    bag_id = await _own_bag(caller, bag)

    def work(tx: Change) -> None:
        found = things.child(tx.conn, bag_id, name)
        if found is None:
            where = "this room" if bag == "room" else "your bag"
            raise NotFound(f"There is no {name[:60]} in {where}.", hint="/inv shows what is.")
        if found.kind in ("room", "agent", "container"):
            raise Invalid(f"{name} is a {found.kind}, which cannot be dropped.")
        things.delete(tx, found)

    told = f"dropped {name}" if bag == "room" else ""
    await caller.change(work, told)
    return Done(f"Dropped {name}. /restore {name} brings it back.")


@verb(
    "restore",
    group="Building",
    needs=Right.ENTER,
    examples=("/restore prompt:local",),
    scope=Scope.BUILD,
)
async def restore(caller: Caller, name: Word) -> Done:
    """Bring back a thing that was dropped

    The one dropped last of that name, from this room's bag or yours.

    name: the thing.
    """
    found = await caller.world.store.read(
        lambda conn: things.last_deleted(conn, bags(caller), name)
    )
    if found is None:
        raise NotFound(f"Nothing named {name[:60]} was dropped here.")
    if found.parent_id != caller.agent.id:
        await caller.require(Right.BUILD)
    told = f"restored {name}" if found.parent_id == caller.room_id else ""

    def work(tx: Change) -> None:
        if found.kind == "tool":
            claim(tx, found.label)
        things.restore(tx, found)

    await caller.change(work, told)
    return Done(f"Restored {name}.")


@verb(
    "move",
    group="Building",
    needs=Right.ENTER,
    examples=("/move prompt:style to home", "/move todo me"),
    scope=Scope.BUILD,
)
async def move(
    caller: Caller,
    name: ThingName,
    to: Annotated[Literal["me", "room", "home"], Arg("word", particle="to")],
) -> Done:
    """Move a thing to another bag

    name: a thing in this room, in your bag, or home:NAME.
    to: me, room or home.
    """
    thing = await find_thing(caller, name)
    await _may_take(caller, thing)
    if to == "home":
        await caller.require(Right.BUILD, await caller.world.room("home"))
        bag_id = "home"
    else:
        bag_id = await _own_bag(caller, to)
    if thing.parent_id == bag_id:
        raise Conflict(f"{thing.name} is there already.")

    def carry(tx: Change) -> None:
        if things.get_live(tx.conn, thing.id).parent_id != thing.parent_id:
            raise NotFound(f"{thing.name} was moved just now.")
        _room_for_one(tx.conn, bag_id, caller.limits.bag_things)
        things.move(tx, thing.id, bag_id)

    told = f"moved {thing.name} to {to}" if thing.parent_id == caller.room_id else ""
    await caller.change(carry, told)
    return Done(f"Moved {thing.name} to {to}.")


async def _may_take(caller: Caller, thing: Thing) -> None:
    if thing.kind in ("room", "agent", "container", "mcp", "tool", "toolset"):
        raise Invalid(f"{thing.label} is a {thing.kind}, which cannot be moved.")
    if thing.parent_id == caller.agent.id:
        return
    if thing.parent_id in (caller.room_id, "home"):
        await caller.require(Right.BUILD, await caller.world.room(thing.parent_id))
        return
    raise Invalid(f"{thing.name} is not in this room, in home, or in your bag.")


async def _own_bag(caller: Caller, bag: str) -> str:
    if bag == "me":
        return caller.agent.id
    await caller.require(Right.BUILD)
    return caller.room_id


def _is_address(uri: str) -> bool:
    if len(uri) > 2_000 or not uri.isprintable():
        return False
    try:
        return bool(urlsplit(uri).scheme)
    except ValueError:  # brackets that are no IPv6 address
        return False


def _room_for_one(conn: Connection, bag_id: str, limit: int) -> None:
    query = select(func.count()).where(
        things_table.c.parent_id == bag_id, things_table.c.deleted_at.is_(None)
    )
    if conn.execute(query).scalar_one() >= limit:
        raise Conflict(f"That bag is full: it holds {limit} things.")


def _set_to(what: str, text: str) -> str:
    return f"set the {what}: {text}" if text else f"emptied the {what}"


def _room_text(text: str) -> str:
    new = "" if text.strip() == "-" else text.strip()
    if len(new) > TEXT_LIMIT:
        raise Invalid(f"That has {len(new)} characters; at most {TEXT_LIMIT} fit.")
    return new
