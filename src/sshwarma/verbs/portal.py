"""The verbs portal and unportal: exits between rooms."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Direction, ExitName, Flag, RoomName
from sshwarma.verbs.exit_lookup import find_exit
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import RoomRight
from sshwarma.verbs.views import Confirmation, view
from sshwarma.world import exits, names
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid
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
    seen = await caller.visible_exits(await caller.room())
    if not any(way.direction == exit_name for way in seen):
        await find_exit(caller, exit_name)  # refuses, with the exits there are
    room_exit = await caller.change(
        lambda tx: exits.close_exit(tx, caller.room_id, exit_name), f"closed the exit {exit_name}"
    )
    return Confirmation(f"Closed exit: {room_exit.direction} → {room_exit.to_name}")
