"""The verbs `nav`: whether models and external agents may leave a room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import view
from sshwarma.world import things
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class Navigation:
    """Whether models and external agents may leave a room."""

    room: str
    on: bool


@view(Navigation)
def draw_navigation(result: Navigation) -> Block:
    """Draw whether models may leave a room."""
    permission = "may leave it" if result.on else "cannot leave it"
    return block(
        line(
            "Navigation is ",
            ("mark", "on" if result.on else "off"),
            " in ",
            ("room", result.room),
            f": models {permission}.",
        )
    )


nav = group(
    "nav",
    section="Moving",
    default="show",
    doc="""Show or set whether models may leave this room.

    The setting applies to agents over MCP too, but not to people.
    """,
)


@nav.verb("show", needs=Right.ENTER, tool=False, examples=("/nav", "/nav show"))
async def show_navigation(caller: Caller) -> Navigation:
    """Show whether models may leave this room."""
    room = await caller.room()
    return Navigation(room.name, room.models_can_move)


@nav.verb("on", needs=Right.BUILD, tool=False, examples=("/nav on",))
async def allow_navigation(caller: Caller) -> Navigation:
    """Let models and external agents leave this room."""
    return await _set_navigation(caller, "on")


@nav.verb("off", needs=Right.BUILD, tool=False, examples=("/nav off",))
async def forbid_navigation(caller: Caller) -> Navigation:
    """Keep models and external agents from leaving this room."""
    return await _set_navigation(caller, "off")


async def _set_navigation(caller: Caller, state: Literal["on", "off"]) -> Navigation:
    room = await caller.room()
    if room.models_can_move != (state == "on"):
        await caller.change(
            lambda tx: things.set_metadata(tx, room.id, nav=state), f"turned navigation {state}"
        )
    return Navigation(room.name, state == "on")
