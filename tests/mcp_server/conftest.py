"""Fixtures: `served`, a world over HTTP; `mode`, each era; `expiry` of tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sshwarma.world.databases import Location
from support.mcp_server import Expiry, Served, serving


@pytest.fixture
def expiry(monkeypatch: pytest.MonkeyPatch) -> Expiry:
    return Expiry(monkeypatch)


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """Each era of the protocol; a client negotiates the modern one by itself."""
    return str(request.param)


@pytest.fixture
async def served(database: Location) -> AsyncIterator[Served]:
    before = asyncio.all_tasks()
    async with serving(database) as made:
        yield made
    left = {
        task
        for task in asyncio.all_tasks() - before - {asyncio.current_task()}
        # One a loop, of the library that sends the streams; it lives as long as the loop.
        if "_shutdown_watcher" not in repr(task.get_coro())
    }
    assert not left, [task.get_coro() for task in left]
