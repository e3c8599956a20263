"""The verbs portal, unportal, vibe and describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sshwarma.common.limits import MAX_DESCRIPTION_CHARACTERS
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Direction, ExitName, Flag, RoomName, Text
from sshwarma.verbs.exit_lookup import find_exit
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import ArgumentRight, RoomRight
from sshwarma.verbs.views import Confirmation, view
from sshwarma.world import exits, names, things
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, too_long_error
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change


@dataclass(frozen=True, slots=True)
class NewPortal:
    """An exit that was created.

    Attributes:
        back: direction of the exit that leads back; None without one.
        replaced: room that an exit in this direction led to before; None if there was no exit.
        back_replaced: the same for the exit that leads back.
    """

    direction: str
    to: str
    back: str | None = None
    replaced: str | None = None
    back_replaced: str | None = None


@view(NewPortal)
def draw_new_portal(portal: NewPortal) -> Block:
    """Draw the new exit, the way back, and the exits that they replaced."""
    lines = [line(f"Created exit: {portal.direction} → ", ("room", portal.to))]
    if portal.replaced:
        lines.append(line(("dim", f"It replaced the exit to {portal.replaced}.")))
    if portal.back:
        lines.append(line(f"And the way back: {portal.back}"))
        if portal.back_replaced:
            lines.append(line(("dim", f"That replaced the exit to {portal.back_replaced}.")))
    return block(*lines)


@verb(
    "portal",
    section="Building",
    needs=Right.BUILD,
    also_needs=(
        RoomRight("to", Right.ENTER, "in the room it leads to"),
        RoomRight("to", Right.BUILD, "there to open the way back", flag="both"),
    ),
    examples=("/portal north studio", "/portal up attic --both"),
    tool=False,
)
async def portal(
    caller: Caller, direction: Direction, to: RoomName, *, both: Flag = False
) -> NewPortal:
    """Open an exit from this room to another.

    The exit leads one way, unless the way back is opened too. It replaces an exit in the same
    direction.

    Args:
        direction: n s e w u d ne nw se sw in out, or a name of your own.
        to: the room it leads to.
        both: open the way back too.
    """
    here = await caller.room()
    exit_name = names.parse_direction(direction)
    target = await caller.find_room(to)
    opposite = names.opposite_direction(exit_name)
    if both and opposite is None:
        flag = caller.reader.name_flag("both")
        raise Invalid(
            f"{exit_name} has no opposite, so {flag} cannot name the way back.",
            hint=next_call(
                f"Open it from {target.name} with {{}}.",
                "portal",
                direction="DIRECTION",
                to=here.name,
            ),
        )

    ways = {way.direction: way.to_id for way in here.exits}
    if ways.get(exit_name) == target.id and not both:
        raise Conflict(f"The exit {exit_name} leads to {target.name} already.")

    def open_both(tx: Change) -> tuple[exits.Exit | None, exits.Exit | None]:
        old_exit = exits.open_exit(tx, here.id, exit_name, target.id, caller.agent.id)
        old_return = None
        if both and opposite is not None:
            old_return = exits.open_exit(tx, target.id, opposite, here.id, caller.agent.id)
        return old_exit, old_return

    old_there, old_back = await caller.change(
        open_both, f"opened an exit: {exit_name} → {target.name}"
    )
    return NewPortal(
        exit_name,
        target.name,
        f"{opposite} → {here.name} (from {target.name})" if both else None,
        old_there.to_name if old_there else None,
        old_back.to_name if old_back else None,
    )


@verb("unportal", section="Building", needs=Right.BUILD, examples=("/unportal north",), tool=False)
async def unportal(caller: Caller, direction: ExitName) -> Confirmation:
    """Close an exit of this room.

    Args:
        direction: the exit to close.
    """
    exit_name = names.parse_direction(direction)
    if not any(way.direction == exit_name for way in (await caller.room()).exits):
        await find_exit(caller, exit_name)  # refuses, with the exits there are
    room_exit = await caller.change(
        lambda tx: exits.close_exit(tx, caller.room_id, exit_name), f"closed the exit {exit_name}"
    )
    return Confirmation(f"Closed exit: {room_exit.direction} → {room_exit.to_name}")


SET_RIGHT: Final = ArgumentRight("text", Right.BUILD, "to set it")


@dataclass(frozen=True, slots=True)
class RoomText:
    """A text of a room that a verb has read or changed: vibe or description."""

    room: str
    what: str
    text: str
    changed: bool


@view(RoomText)
def draw_room_text(result: RoomText) -> Block:
    """Draw a text of a room, and whether it has just changed."""
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
    section="Building",
    needs=Right.ENTER,
    also_needs=(SET_RIGHT,),
    examples=("/vibe", "/vibe quiet, focused"),
    default=True,
)
async def vibe(caller: Caller, text: Text | None = None) -> RoomText:
    """Show or set the vibe of this room.

    The vibe is the mood of the room in one line. It is part of each look, and of what models are
    sent.

    For models:
        Show or set the mood of your room.

    Args:
        text: the new vibe (default: show the current one); - empties it.
    """
    room = await caller.room()
    if text is None:
        return RoomText(room.name, "vibe", room.vibe, changed=False)
    new_vibe = _clean_room_text(text)
    await caller.change(
        lambda tx: things.set_metadata(tx, room.id, vibe=new_vibe or None),
        _describe_change("vibe", new_vibe),
    )
    return RoomText(room.name, "vibe", new_vibe, changed=True)


@verb(
    "describe",
    section="Building",
    needs=Right.ENTER,
    also_needs=(SET_RIGHT,),
    examples=("/describe", "/describe A long bench under north light."),
)
async def describe(caller: Caller, text: Text | None = None) -> RoomText:
    """Show or set the description of this room.

    Args:
        text: the new description (default: show the current one); - empties it.
    """
    room = await caller.room()
    if text is None:
        return RoomText(room.name, "description", room.description, changed=False)
    description = _clean_room_text(text)
    await caller.change(
        lambda tx: things.update_thing(tx, room.id, description=description or None),
        _describe_change("description", description),
    )
    return RoomText(room.name, "description", description, changed=True)


def _describe_change(change: str, text: str) -> str:
    return f"set the {change}: {text}" if text else f"emptied the {change}"


EMPTY_TEXTS: Final = ("-", "''", '""')
"""Words that empty a text."""


def _clean_room_text(text: str) -> str:
    clean_text = "" if text.strip() in EMPTY_TEXTS else text.strip()
    if len(clean_text) > MAX_DESCRIPTION_CHARACTERS:
        raise too_long_error("text", len(clean_text), MAX_DESCRIPTION_CHARACTERS)
    return clean_text
