"""Fixtures: `hubbed`, a hub in a world of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sshwarma.mcp.client.server_state import SupervisorTiming
from sshwarma.world.world import World
from support.hub import QUICK, Hubbed, children
from support.people import Someone, alice, bob, qwen, world

__all__ = ["alice", "bob", "qwen", "world"]


@pytest.fixture
def timing() -> SupervisorTiming:
    return QUICK


@pytest.fixture
async def hubbed(
    world: World, alice: Someone, tmp_path: Path, timing: SupervisorTiming
) -> AsyncIterator[Hubbed]:
    made = Hubbed(world, alice, tmp_path / "mcp", timing)
    await made.hub.start()
    yield made
    await made.hub.close()
    assert children() == [], "a program was left behind"
