"""Which handler a channel gets, and who gets none."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from sshwarma.settings import ReloadableSettings
from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.login import RegisteredUser
from sshwarma.ssh.door.router import SessionRouter
from sshwarma.ssh.transport.interfaces import Rejected
from sshwarma.terminal.clock import FrameClock
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.world import agents, login_keys, owners
from sshwarma.world.world import World
from support.people import world
from support.services import services_in
from support.waiting import until

__all__ = ["world"]


class Link:
    """A connection of an agent, made with a key."""

    def __init__(self, agent_id: str, fingerprint: str) -> None:
        self.identity = RegisteredUser(agent_id)
        self.peer = SimpleNamespace(fingerprint=fingerprint)
        self.closed: list[str] = []
        self.channels: tuple[Any, ...] = ()

    def close(self, reason: str) -> None:
        self.closed.append(reason)


@pytest.mark.parametrize("has_pty", [True, False], ids=["terminal", "plain"])
async def test_an_agent_disabled_after_its_login_gets_no_channel(
    world: World, has_pty: bool
) -> None:
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol"))
    await world.change(lambda tx: owners.set_agent_disabled(tx, carol.id, True))
    gate: Any = None
    clock = FrameClock(asyncio.get_running_loop())
    house = SshContext(
        world, services_in(world), gate, ReloadableSettings(), clock, LineRateLimiter(100)
    )

    async def serve(agent_id: str, origin: Any, lines: Any) -> None:
        raise AssertionError("the service of a disabled agent ran")

    house.channels["mcp"] = serve
    router = SessionRouter(house)
    link: Any = Link(carol.id, "SHA256:first")
    channel: Any = SimpleNamespace(has_pty=has_pty, env={}, size=(80, 24), term="xterm")
    with pytest.raises(Rejected, match="disabled"):
        router.shell(link, channel)
    with pytest.raises(Rejected, match="disabled"):
        router.exec(link, channel, "look")
    with pytest.raises(Rejected, match="disabled"):
        router.subsystem(link, channel, "mcp")


async def test_a_removed_key_ends_the_connections_made_with_it_and_no_others(world: World) -> None:
    carol = await world.change(lambda tx: agents.create_agent(tx, "carol"))
    for key in ("SHA256:first", "SHA256:second"):
        await world.change(
            lambda tx, key=key: login_keys.add_key(tx, carol.id, key, f"ssh-x {key}")
        )
    gate: Any = None
    clock = FrameClock(asyncio.get_running_loop())
    router = SessionRouter(
        SshContext(
            world, services_in(world), gate, ReloadableSettings(), clock, LineRateLimiter(100)
        )
    )
    first, second = Link(carol.id, "SHA256:first"), Link(carol.id, "SHA256:second")
    links: list[Any] = [first, second]
    channel: Any = None
    for link in links:
        assert router.subsystem(link, channel, "none") is None
        router._check_access(carol.id, link)
    await world.change(lambda tx: owners.remove_key(tx, carol.id, "SHA256:first"))
    await until(lambda: first.closed)
    assert (first.closed, second.closed) == (["The key of this connection was removed."], [])
    router._check_access(carol.id, links[1])
    with pytest.raises(Rejected, match="key of this connection was removed"):
        router._check_access(carol.id, links[0])
