"""Unread private messages: looked up once for each agent, and never missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from sshwarma.world import private_messages, things
from sshwarma.world.ids import now_ms
from support.people import Someone, arrive, do


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


async def unread_of(someone: Someone) -> dict[str, int]:
    """How many messages of each other somebody has not read, the newest first."""
    world = someone.world

    def read(conn: Connection) -> dict[str, int]:
        found = private_messages.read_conversations(conn, someone.id, 10)
        return {world.agents.name_of(one.peer_id): one.unread for one in found}

    return await world.store.read(read)


async def mark(someone: Someone, peer: Someone | None = None) -> None:
    later, peer_id = now_ms() + 1000, peer.id if peer is not None else None
    await someone.world.change(
        lambda tx: private_messages.mark_read(tx, someone.id, later, peer_id)
    )


async def test_messages_of_one_are_marked_without_those_of_others(
    alice: Someone, bob: Someone
) -> None:
    carol = await arrive(alice.world, "carol")
    await do(carol, "/tell alice first")
    await do(bob, "/tell alice second")
    await do(bob, "/tell alice third")
    assert list((await unread_of(alice)).items()) == [(bob.name, 2), (carol.name, 1)]
    await mark(alice, bob)
    assert await unread_of(alice) == {bob.name: 0, carol.name: 1}
    assert await unread(alice) == 1
    await do(bob, "/tell alice fourth")
    assert await unread_of(alice) == {bob.name: 1, carol.name: 1}
    await mark(alice, carol)
    assert await unread_of(alice) == {bob.name: 1, carol.name: 0}
    await mark(alice)
    assert await unread(alice) == 0
    assert private_messages.READ_OF_KEY not in await read_metadata(alice)
    await do(alice, "/tell bob an answer")
    assert await unread_of(alice) == {bob.name: 0, carol.name: 0}
    assert await unread_of(carol) == {alice.name: 0}


async def test_marks_of_single_logs_do_not_add_up(alice: Someone, bob: Someone) -> None:
    carol = await arrive(alice.world, "carol")
    await do(bob, "/tell alice one")
    await do(carol, "/tell alice two")
    await mark(alice, carol)
    assert private_messages.READ_OF_KEY in await read_metadata(alice)
    await mark(alice, bob)
    assert private_messages.READ_OF_KEY not in await read_metadata(alice)
    assert await unread(alice) == 0


async def read_metadata(someone: Someone) -> dict[str, Any]:
    thing = await someone.world.store.read(lambda conn: things.get_live_thing(conn, someone.id))
    return dict(thing.metadata)
