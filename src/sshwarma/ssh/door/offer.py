"""`ssh host offer NAME`: offers an MCP server that runs at the client's end.

Its tools are in one room while the channel is open. The caller needs the `build` right there.
"""

from __future__ import annotations

from collections.abc import Sequence

from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.line_channel import LineChannel
from sshwarma.world.access import Right
from sshwarma.world.audit import Origin
from sshwarma.world.errors import Invalid

OFFER_USAGE = "ssh HOST offer NAME [--room ROOM]"


async def serve_offer(
    context: SshContext, words: Sequence[str], agent_id: str, origin: Origin, lines: LineChannel
) -> None:
    """Offer tools of the MCP server behind `lines` in a room until the channel ends.

    Raises:
        WorldError: if the arguments are wrong, the caller lacks the right, or the peer is no
            MCP server.
    """
    name, room = _parse_offer_arguments(words)
    caller = await context.make_caller(agent_id, "mcp", origin).in_accessible_room()
    if room is not None:
        caller = await caller.in_room(room)
    await caller.require(Right.BUILD)
    await context.services.hub.add_offer(caller.with_verb("offer", f"offer {name}"), name, lines)


def _parse_offer_arguments(words: Sequence[str]) -> tuple[str, str | None]:
    match words:
        case [name] if not name.startswith("-"):
            return name, None
        case [name, "--room", room] | ["--room", room, name]:
            return name, room
    raise Invalid("Wrong arguments for `offer`.", hint=f"Usage: {OFFER_USAGE}")
