"""Two servers of one world: each hears what the other does, once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from sshwarma.world import agents, rows, things
from sshwarma.world.databases import DatabaseUrl, Location
from sshwarma.world.events import AgentEvicted, AgentsChanged, Event, RowAppended, WorldChanged
from sshwarma.world.postgres_dialect import PostgresDialect
from sshwarma.world.store import Change
from sshwarma.world.world import World
from support.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.process]


@asynccontextmanager
async def opened(database: Location) -> AsyncIterator[World]:
    world = await World.open(database, ())
    try:
        yield world
    finally:
        await world.close()


@pytest.fixture
async def pair(
    database: Location, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[World, World]]:
    monkeypatch.setattr(PostgresDialect, "claim", lambda self: None)
    async with opened(database) as a, opened(database) as b:
        yield a, b


def say(words: str, room_id: str = "lobby") -> Callable[[Change], int]:
    return lambda tx: rows.append_row(tx, room_id, "chat", words, author_id=None).seq


def listen(world: World, room_id: str = "lobby") -> list[str]:
    heard: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, RowAppended):
            heard.append(event.row.content)

    world.bus.on_room(room_id, note)
    return heard


async def test_row_is_heard_by_the_other_server(pair: tuple[World, World]) -> None:
    a, b = pair
    heard = listen(b)
    assert [row.content for row in await b.last_rows("lobby", 5)] == []
    await a.change(say("hello"))
    await until(lambda: heard == ["hello"])
    assert [row.content for row in await b.last_rows("lobby", 5)] == ["hello"]


async def test_both_hear_all_rows_once_in_the_same_order(pair: tuple[World, World]) -> None:
    heard = [listen(world) for world in pair]
    for world in pair:
        await world.last_rows("lobby", 5)
    await asyncio.gather(
        *(
            world.change(say(f"{name} {n}"))
            for n in range(200)
            for name, world in zip("ab", pair, strict=True)
        )
    )
    await until(lambda: all(len(words) >= 400 for words in heard))
    stored = await pair[0].store.read(lambda conn: rows.read_tail(conn, "lobby", 1_000))
    assert heard[0] == heard[1] == [row.content for row in stored]
    for world in pair:
        tail = [row.seq for row in await world.last_rows("lobby", 150)]
        assert tail == list(range(251, 401))


async def test_changed_things_and_agents_are_seen_by_the_other_server(
    pair: tuple[World, World],
) -> None:
    a, b = pair
    made = await a.change(lambda tx: agents.create_agent(tx, "ann", role="member"))
    await until(lambda: b.agents.find_by_name("ann") is not None)
    await b.rooms()
    before = b.version
    await a.change(lambda tx: things.create_thing(tx, "rooms", "room", "den"))
    await until(lambda: b.version > before)
    assert "den" in [room.name for room in await b.rooms()]
    await a.change(lambda tx: tx.publish_on_commit(AgentsChanged(made.id)))


async def test_private_row_is_heard_by_its_readers_alone(pair: tuple[World, World]) -> None:
    a, b = pair
    in_room, for_ann = listen(b), []
    b.bus.on_agent("ann", lambda event: for_ann.append(event.row.content))

    def tell(tx: Change) -> None:
        rows.append_row(
            tx, "lobby", "tell", "psst", author_id=None, audience=frozenset({"ann", "bob"})
        )

    await a.change(tell)
    await until(lambda: for_ann == ["psst"])
    assert in_room == []


async def test_eviction_is_heard_by_the_other_server(pair: tuple[World, World]) -> None:
    a, b = pair
    heard: list[Any] = []
    b.bus.on_agent("ann", heard.append)
    event = AgentEvicted("ann", "You were removed.", "lobby")
    await a.change(lambda tx: tx.publish_on_commit(event))
    await until(lambda: heard == [event])


async def test_rows_are_heard_although_connections_are_lost(
    pair: tuple[World, World], database: Location
) -> None:
    a, b = pair
    heard = listen(b)
    assert isinstance(database, DatabaseUrl)
    with psycopg.connect(database.text, autocommit=True) as operator:
        for n in range(60):
            await a.change(say(f"line {n}"))
            if n % 3 == 0:
                operator.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name IN ('sshwarma/listener', 'sshwarma/writer')"
                    " AND datname = current_database()"
                )
    await until(lambda: len(heard) >= 60)
    assert heard == [f"line {n}" for n in range(60)]


async def test_own_events_are_published_once(pair: tuple[World, World]) -> None:
    a, _ = pair
    changes: list[Any] = []
    a.bus.on_event(WorldChanged, changes.append)
    a.bus.on_event(AgentsChanged, changes.append)
    heard = listen(a)
    for n in range(20):
        await a.change(say(f"{n}"))
        await a.change(lambda tx: tx.publish_on_commit(WorldChanged("lobby")))
    await asyncio.sleep(0)
    assert heard == [f"{n}" for n in range(20)]
    assert len(changes) == 20
