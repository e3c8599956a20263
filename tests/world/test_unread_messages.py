"""Unread private messages: looked up once for each agent, and never missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from sshwarma.world import private_messages
from sshwarma.world.ids import now_ms
from support.people import Someone, do


async def unread(someone: Someone) -> int:
    world = someone.world
    count, _ = await world.unread_messages.read_unread(world.store, someone.id, 5)
    return count


async def test_agent_without_messages_is_looked_up_once(alice: Someone) -> None:
    assert await unread(alice) == 0
    reads = alice.world.store.counts.reads
    assert await unread(alice) == 0
    assert not await alice.world.unread_messages.has_unread(
        alice.world.store, alice.id, now_ms() + 1000
    )
    assert alice.world.store.counts.reads == reads


async def test_message_is_unread_until_it_is_marked(alice: Someone, bob: Someone) -> None:
    world = alice.world
    assert await unread(alice) == 0
    await do(bob, "/tell alice one")
    await do(bob, "/tell alice two")
    assert await unread(alice) == 2
    assert await unread(alice) == 2
    later = now_ms() + 1000
    assert await world.unread_messages.has_unread(world.store, alice.id, later)
    await world.change(lambda tx: private_messages.mark_read(tx, alice.id, later))
    assert await unread(alice) == 0


async def test_message_that_comes_while_one_looks_is_not_missed(
    alice: Someone, bob: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = alice.world
    begun, told = asyncio.Event(), asyncio.Event()
    read = world.store.read

    async def slow_read(query: Callable[[Connection], Any]) -> Any:
        result = await read(query)
        begun.set()
        await told.wait()
        return result

    monkeypatch.setattr(world.store, "read", slow_read)
    looking = asyncio.create_task(unread(alice))
    await begun.wait()
    monkeypatch.undo()
    await do(bob, "/tell alice hello")
    told.set()
    assert await looking == 0
    assert await unread(alice) == 1
