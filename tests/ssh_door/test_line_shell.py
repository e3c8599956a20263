"""The shell of those without a terminal, at its beginning and its end."""

from __future__ import annotations

import asyncio
from typing import Any

from sshwarma.settings import ReloadableSettings
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.line_shell import LineShellHandler
from sshwarma.terminal.clock import FrameClock
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world import agents
from sshwarma.world.world import World
from support.people import world
from support.services import services_in

__all__ = ["world"]


class Nobody:
    """A channel, and a link, whose other end has gone."""

    def __init__(self) -> None:
        self.env: tuple[tuple[str, str], ...] = ()
        self.ended = asyncio.Event()

    def write(self, data: bytes) -> None:
        """To nobody."""

    def exit(self, status: int) -> None:
        self.ended.set()


async def test_disconnect_during_login_leaves_no_presence(world: World) -> None:
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol"))
    clock = FrameClock(asyncio.get_running_loop())
    gate: Any = None
    house = SshContext(
        world, services_in(world), gate, ReloadableSettings(), clock, LineRateLimiter(100)
    )
    other_end: Any = Nobody()
    shell = LineShellHandler(house, carol.id, other_end, other_end)
    await asyncio.sleep(0)
    assert world.presence.connections_of(carol.id), "they stand there, and it is not told yet"
    shell.closed(None)
    await asyncio.wait_for(other_end.ended.wait(), 30)
    await house.flush()
    assert not world.presence.connections_of(carol.id)
    received = [row.content for row in await world.last_rows("lobby", 5)]
    assert received[-1] == "leaves"
