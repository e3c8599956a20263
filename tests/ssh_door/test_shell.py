"""A person's shell: a client that is gone at once."""

from __future__ import annotations

import asyncio
import gc
import re
import warnings
from typing import Any

from sshwarma.settings import ReloadableSettings
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.shell import ShellHandler
from sshwarma.ssh.transport.interfaces import Peer
from sshwarma.terminal.clock import FrameClock
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world import agents
from sshwarma.world.world import World
from support.people import world
from support.services import services_in

__all__ = ["world"]

RATE = 40


class OwnScreen:
    """A channel with a terminal, and the link that it is on."""

    term = "xterm"
    size = (80, 24)
    env: tuple[tuple[str, str], ...] = ()
    peer = Peer("127.0.0.1", 1, "carol", "SHA256:x", "", "")

    def __init__(self) -> None:
        self.written = b""

    @property
    def text(self) -> str:
        """What was written, without escape sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.written.decode())

    def write(self, data: bytes) -> None:
        self.written += data

    def exit(self, status: int) -> None:
        """Nobody reads it."""


async def carols_shell(world: World, screen: Any) -> tuple[SshContext, ShellHandler]:
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol"))
    clock = FrameClock(asyncio.get_running_loop())
    gate: Any = None
    settings = ReloadableSettings()
    rate = LineRateLimiter(RATE)
    house = SshContext(world, services_in(world), gate, settings, clock, rate)
    return house, ShellHandler(house, carol.id, screen, screen)


async def test_client_that_is_gone_before_the_first_screen_leaves_no_coroutine(
    world: World,
) -> None:
    house, shell = await carols_shell(world, OwnScreen())
    shell.eof()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        await asyncio.wait({shell._task})
        gc.collect()
    assert not warned
    await house.flush()
