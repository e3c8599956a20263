"""Arrival at a login: the room to begin in, and messages missed while away."""

from __future__ import annotations

import time
from collections.abc import Callable

from sshwarma.common.limits import MAX_SHOWN_UNREAD
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.log_rows import RowDisplayOptions, draw_row
from sshwarma.verbs.views import format_count
from sshwarma.world import movement, private_messages
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.errors import NotFound
from sshwarma.world.ids import LOBBY_ID, now_ms
from sshwarma.world.presence import AgentConnection
from sshwarma.world.world import World


async def find_start_room(world: World, agent: Agent, room_id: str) -> str:
    """Return that room's id if the agent may enter it, else the lobby's."""
    try:
        room = await world.room(room_id)
    except NotFound:
        return LOBBY_ID
    return room_id if Right.ENTER in room.rights_of(agent, now=now_ms()) else LOBBY_ID


async def announce(
    world: World, connection: AgentConnection, print_block: Callable[[Block], None]
) -> None:
    """Announce an arrival to the room; print why that is not possible, if so."""
    if problem := await movement.announce_arrival(world, connection, may_postpone=True):
        print_block(block(line(("warn", problem))))


async def draw_way_back(world: World, room_id: str) -> Block:
    """Draw how to go back to a room; an empty Block if it does not exist any more."""
    try:
        name = (await world.room(room_id)).name
    except NotFound:
        return block()
    return block(line(("dim", f"You were last in {name}. Go back: /join {name}")))


async def read_unread_messages(world: World, agent_id: str) -> list[Block]:
    """Draw the private messages that came while the agent was away, if it was."""
    if len(world.presence.connections_of(agent_id)) > 1:
        return []  # another terminal has shown them
    count, unread = await world.unread_messages.read_unread(world.store, agent_id, MAX_SHOWN_UNREAD)
    if not count:
        return []
    sender = world.agents.name_of(unread[-1].author_id)
    hint = f"/history @{sender} shows all of {sender}'s." if count > len(unread) else ""
    heading = f"{format_count(count, 'message')} for you while you were away. {hint}".strip()
    times = RowDisplayOptions(timestamps=True)
    rows = [draw_row(row, world.agents, agent_id, times) for row in unread]
    return [block(line(("heading", heading))), *rows]


async def mark_messages_read(world: World, connection: AgentConnection) -> None:
    """Remember as read what came before the last key of a terminal that ends.

    What came later may never have been seen: the next login shows it.
    """
    read_at = now_ms() - int((time.monotonic() - connection.last_active) * 1000)
    if await world.unread_messages.has_unread(world.store, connection.agent_id, read_at):
        await world.change(lambda tx: private_messages.mark_read(tx, connection.agent_id, read_at))
