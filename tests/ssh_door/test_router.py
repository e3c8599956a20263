"""Which handler a channel gets, and who gets none."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from sshwarma.settings import LimitSettings
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.login import RegisteredUser
from sshwarma.ssh.door.router import SessionRouter
from sshwarma.ssh.transport.interfaces import Rejected
from sshwarma.terminal.clock import FrameClock
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world import agents
from sshwarma.world.world import World
from support.people import world
from support.services import services_in

__all__ = ["world"]


@pytest.mark.parametrize("has_pty", [True, False], ids=["terminal", "plain"])
async def test_an_agent_disabled_after_its_login_gets_no_channel(
    world: World, has_pty: bool
) -> None:
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol"))
    await world.change(lambda tx: agents.set_agent_disabled(tx, carol.id, True))
    gate: Any = None
    clock = FrameClock(asyncio.get_running_loop())
    house = SshContext(
        world, services_in(world), gate, LimitSettings(), clock, "", LineRateLimiter(100)
    )

    async def serve(agent_id: str, lines: Any) -> None:
        raise AssertionError("the service of a disabled agent ran")

    house.channels["mcp"] = serve
    router = SessionRouter(house)
    link: Any = SimpleNamespace(identity=RegisteredUser(carol.id))
    channel: Any = SimpleNamespace(has_pty=has_pty, env={}, size=(80, 24), term="xterm")
    with pytest.raises(Rejected, match="disabled"):
        router.shell(link, channel)
    with pytest.raises(Rejected, match="disabled"):
        router.exec(link, channel, "look")
    with pytest.raises(Rejected, match="disabled"):
        router.subsystem(link, channel, "mcp")
