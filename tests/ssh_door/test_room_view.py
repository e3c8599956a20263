"""The room on a terminal: one subscription, whatever enters at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

from sshwarma.settings import ReloadableSettings
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.room_view import RoomView
from sshwarma.terminal.clock import FrameClock
from sshwarma.terminal.terminal import Terminal, TerminalCallbacks
from sshwarma.terminal.text import Block
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world import agents, rooms, rows
from sshwarma.world.presence import AgentConnection
from sshwarma.world.world import World
from support.people import world
from support.services import services_in

__all__ = ["world"]


class Page(Terminal):
    """A terminal that keeps what is printed above its prompt."""

    def __init__(self, clock: FrameClock) -> None:
        nothing: Any = None
        callbacks = TerminalCallbacks(nothing, nothing, nothing, nothing)
        super().__init__(lambda data: None, callbacks, columns=80, rows=24, clock=clock)
        self.text = ""

    def print(self, block: Block) -> None:
        self.text += block.plain() + "\n"


async def test_concurrent_room_entries_show_only_the_last_room(world: World) -> None:
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol"))
    den = await world.change(lambda tx: rooms.create_room(tx, "den", carol))
    clock = FrameClock(asyncio.get_running_loop())
    gate: Any = None
    context = SshContext(
        world, services_in(world), gate, ReloadableSettings(), clock, LineRateLimiter(100)
    )
    page = Page(clock)
    view = RoomView(context, AgentConnection(carol.id, "lobby", "ssh"), page)

    await asyncio.gather(view.enter("lobby"), view.enter(den.id))
    for room_id in ("lobby", den.id):
        await world.change(
            lambda tx, to=room_id: rows.append_row(tx, to, "notice", f"to {to}", author_id=None)
        )
    assert f"to {den.id}" in page.text
    assert "to lobby" not in page.text

    view.close()
    await world.change(lambda tx: rows.append_row(tx, den.id, "notice", "after", author_id=None))
    assert "after" not in page.text
