"""Bringing a server along: `ssh host offer NAME`, with an MCP server at the channel's other end.

Its tools are in one room for as long as the channel lives; the one who offers must be allowed to
build there.
"""

from __future__ import annotations

from collections.abc import Sequence

from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.line_channel import LineChannel
from sshwarma.world.access import Right
from sshwarma.world.errors import Invalid

OFFER_USAGE = "ssh HOST offer NAME [--room ROOM]"


async def serve_offer(
    house: SshContext, words: Sequence[str], agent_id: str, lines: LineChannel
) -> None:
    """Have the tools of the server that speaks over `lines`, until it ends.

    Raises:
        WorldError: if it may not be, or is no such server.
    """
    name, room = _parse_offer_arguments(words)
    caller = await house.caller(agent_id, "mcp", None).where_it_may_be()
    if room is not None:
        caller = await caller.elsewhere(room)
    await caller.require(Right.BUILD)
    await house.services.hub.offer(caller.asking("offer", f"offer {name}"), name, lines)


def _parse_offer_arguments(words: Sequence[str]) -> tuple[str, str | None]:
    match words:
        case [name] if not name.startswith("-"):
            return name, None
        case [name, "--room", room] | ["--room", room, name]:
            return name, room
    raise Invalid("Say what its tools are to be called.", hint=f"Usage: {OFFER_USAGE}")
