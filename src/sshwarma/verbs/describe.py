"""The verbs vibe and describe: the texts of a room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sshwarma.common.limits import MAX_DESCRIPTION_CHARACTERS
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Text
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import ArgumentRight
from sshwarma.verbs.views import view
from sshwarma.world import things
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import too_long_error
from sshwarma.world.rooms import Room
from sshwarma.world.store import Change

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
    return await _set_text(
        caller, room, "vibe", text, lambda tx, new: things.set_metadata(tx, room.id, vibe=new)
    )


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
    return await _set_text(
        caller,
        room,
        "description",
        text,
        lambda tx, new: things.update_thing(tx, room.id, description=new),
    )


async def _set_text(
    caller: Caller,
    room: Room,
    what: str,
    text: str,
    store: Callable[[Change, str | None], object],
) -> RoomText:
    """Set a text of a room by `store`, which gets None for no text; tell the room."""
    new_text = _clean_room_text(text)
    caller.charge_text_volume(len(new_text.encode()))
    notice = f"set the {what}: {new_text}" if new_text else f"emptied the {what}"
    await caller.change(lambda tx: store(tx, new_text or None), notice)
    return RoomText(room.name, what, new_text, changed=True)


EMPTY_TEXTS: Final = ("-", "''", '""')
"""Words that empty a text."""


def _clean_room_text(text: str) -> str:
    clean_text = "" if text.strip() in EMPTY_TEXTS else text.strip()
    if len(clean_text) > MAX_DESCRIPTION_CHARACTERS:
        raise too_long_error("text", len(clean_text), MAX_DESCRIPTION_CHARACTERS)
    return clean_text
