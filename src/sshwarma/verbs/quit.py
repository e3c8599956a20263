"""The verb quit."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import view
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class Goodbye:
    """A request of the caller to disconnect."""

    text: str


@view(Goodbye)
def draw_goodbye(goodbye: Goodbye) -> Block:
    """Draw the farewell."""
    return block(goodbye.text)


@verb(
    "quit",
    section="Yourself",
    tool=False,
    ssh_only=True,
    works_at_terminals=True,
    aliases=("exit", "bye"),
    examples=("/quit",),
)
async def quit_world(caller: Caller) -> Goodbye:
    """Leave the world.

    Ctrl-D on an empty line does the same.
    """
    return Goodbye("Goodbye.")
