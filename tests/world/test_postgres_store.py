"""The store on PostgreSQL: numbers, failures, and two writers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from sqlalchemy import text

from sshwarma.world import rows, search, things
from sshwarma.world.databases import DatabaseUrl, Location, make_dialect
from sshwarma.world.errors import Unavailable, WorldError
from sshwarma.world.events import Event, RowAppended
from sshwarma.world.postgres_nodes import WORLD_LOCK
from sshwarma.world.store import Change, Store
from support.people import Someone, do, refused
from support.postgres import PostgresServer, running_postgres
from support.rows import read_rows_after
from support.waiting import until

pytestmark = [pytest.mark.postgres, pytest.mark.process]


@asynccontextmanager
async def opened(database: Location, received: list[Event] | None = None) -> AsyncIterator[Store]:
    store = Store(make_dialect(database), (received if received is not None else []).append)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
async def store(database: Location) -> AsyncIterator[Store]:
    async with opened(database) as made:
        await made.write(lambda tx: things.create_thing(tx, None, "room", "den", id="den"))  # type: ignore[arg-type]
        yield made


def say(words: str, room_id: str = "den") -> Callable[[Change], tuple[int, int]]:
    def unit(tx: Change) -> tuple[int, int]:
        row = rows.append_row(tx, room_id, "chat", words, author_id=None, tags=["said"])
        return row.n, row.seq

    return unit


async def log_of(store: Store, room_id: str = "den") -> list[tuple[int, int, str]]:
    found = await store.read(lambda conn: read_rows_after(conn, room_id, 0, 100_000))
    return [(row.n, row.seq, row.content) for row in found]


def address_of(database: Location) -> str:
    assert isinstance(database, DatabaseUrl)
    return database.text


async def test_rows_of_a_batch_are_numbered_in_order_and_inserted_together(
    store: Store, database: Location
) -> None:
    told = await asyncio.gather(*(store.write(say(f"line {n}")) for n in range(500)))
    first = told[0][0]
    assert told == [(first + n, n + 1) for n in range(500)]
    assert await log_of(store) == [(first + n, n + 1, f"line {n}") for n in range(500)]
    with psycopg.connect(address_of(database)) as conn:
        assert conn.execute("SELECT count(*) FROM row_tags WHERE tag = 'said'").fetchone() == (500,)


async def test_unit_reads_what_earlier_units_of_its_batch_and_itself_appended(store: Store) -> None:
    def look(tx: Change) -> int:
        say("mine")(tx)
        found = tx.conn.execute(text("SELECT count(*) FROM rows WHERE room_id = 'den'"))
        return int(found.scalar_one())

    gate = threading.Event()
    held = asyncio.create_task(store.write(lambda tx: gate.wait(30)))
    waiting = [asyncio.create_task(store.write(unit)) for unit in (say("a"), say("b"), look)]
    await asyncio.sleep(0)
    gate.set()
    assert await held
    assert [await task for task in waiting][2] == 3


async def test_failing_unit_leaves_nothing_and_no_gap(store: Store) -> None:
    def fails_after_reading(tx: Change) -> None:
        say("lost")(tx)
        tx.conn.execute(text("SELECT 1"))
        raise WorldError("no")

    def fails(tx: Change) -> None:
        say("lost")(tx)
        raise WorldError("no")

    def refused_by_the_database(tx: Change) -> None:
        say("lost")(tx)
        tx.conn.execute(text("INSERT INTO things SELECT * FROM things"))

    units = [say("1"), fails, say("2"), fails_after_reading, refused_by_the_database, say("3")]
    answers = await asyncio.gather(*map(store.write, units), return_exceptions=True)
    assert [isinstance(answer, BaseException) for answer in answers] == [
        False, True, False, True, True, False,
    ]  # fmt: skip
    assert [(seq, words) for _, seq, words in await log_of(store)] == [
        (1, "1"), (2, "2"), (3, "3"),
    ]  # fmt: skip
    numbers = [n for n, _, _ in await log_of(store)]
    assert numbers == list(range(numbers[0], numbers[0] + 3))


async def test_row_that_the_database_refuses_fails_its_unit_alone(store: Store) -> None:
    """Its insertion comes after the unit, with those of others."""
    units = [say("1"), say("to nowhere", room_id="no such room"), say("2")]
    answers = await asyncio.gather(*map(store.write, units), return_exceptions=True)
    assert [isinstance(answer, BaseException) for answer in answers] == [False, True, False]
    assert [(seq, words) for _, seq, words in await log_of(store)] == [(1, "1"), (2, "2")]


async def test_two_stores_number_one_log_without_gaps_or_ties(
    store: Store, database: Location
) -> None:
    async with opened(database) as other:
        said = [
            node.write(say(f"{name} {n}"))
            for n in range(300)
            for name, node in (("a", store), ("b", other))
        ]
        await asyncio.gather(*said)
        log = await log_of(store)
    assert [seq for _, seq, _ in log] == list(range(1, 601))
    assert [n for n, _, _ in log] == sorted(n for n, _, _ in log)
    assert sorted(words for _, _, words in log) == sorted(
        f"{name} {n}" for name in "ab" for n in range(300)
    )
    for name in "ab":
        own = [words for _, _, words in log if words.startswith(name)]
        assert own == [f"{name} {n}" for n in range(300)]


async def test_two_stores_lose_no_update_of_one_thing(store: Store, database: Location) -> None:
    def note(key: str) -> Callable[[Change], str]:
        values: dict[str, Any] = {key: 1}
        return lambda tx: things.set_metadata(tx, "den", **values).id

    async with opened(database) as other:
        nodes = (store, other)
        await asyncio.gather(*(nodes[n % 2].write(note(f"key {n}")) for n in range(400)))
        den = await store.read(lambda conn: things.get_thing(conn, "den"))
    assert len(den.metadata) == 400


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    with running_postgres("fsync=on") as server:
        yield server


def words_of(events: list[Event]) -> list[str]:
    return [event.row.content for event in events if isinstance(event, RowAppended)]


async def make_den(server: PostgresServer) -> DatabaseUrl:
    database = server.create()
    await asyncio.to_thread(make_dialect(database).prepare)
    async with opened(database) as store:
        await store.write(lambda tx: things.create_thing(tx, None, "room", "den", id="den"))  # type: ignore[arg-type]
    return database


@pytest.mark.long
@pytest.mark.units_once("the server ends between two runs of a unit")
async def test_acknowledged_rows_survive_crashes_of_the_server(
    own_server: PostgresServer,
) -> None:
    """Of two servers, which get the numbers of each other's lost transactions."""
    database = await make_den(own_server)
    acknowledged: list[str] = []
    unknown: list[str] = []
    received: tuple[list[Event], list[Event]] = ([], [])
    stop = asyncio.Event()

    async def talk(store: Store, name: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            words = f"{name}.{number}"
            try:
                await store.write(say(words))
            except Unavailable:
                unknown.append(words)
            else:
                acknowledged.append(words)

    async with opened(database, received[0]) as store, opened(database, received[1]) as other:
        for node in (store, other):  # both hear all from now on
            await node.write(lambda tx: tx.now)
        talking = [
            asyncio.create_task(talk(node, name))
            for name in range(40)
            for node in ((store, other)[name % 2],)
        ]
        for _ in range(10):
            before = len(acknowledged)
            while len(acknowledged) < before + 200:  # noqa: ASYNC110 - twenty tasks add to it
                await asyncio.sleep(0.01)
            await asyncio.to_thread(own_server.control, "-m", "immediate", "restart")
        stop.set()
        await asyncio.gather(*talking)
        log = await log_of(store)
        stored = [words for _, _, words in log]
        for heard in received:
            await until(lambda heard=heard: words_of(heard) == stored)
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored)
    assert not set(unknown) & set(stored), "a refusal is true"
    assert [seq for _, seq, _ in log] == list(range(1, len(log) + 1))


async def test_changes_are_refused_in_words_while_the_server_is_down(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sshwarma.world.postgres_writer.MAX_RECONNECT_SECONDS", 0.2)
    database = await make_den(own_server)
    async with opened(database) as store:
        await store.write(say("before"))
        await asyncio.to_thread(own_server.control, "-m", "fast", "stop")
        with pytest.raises(Unavailable, match=r"cannot be reached\. Nothing was stored"):
            await store.write(say("lost"))
        assert store.counts.failed_commits == 1, "it waited once"
        with pytest.raises(Unavailable, match="The database cannot be reached"):
            await log_of(store)
        await asyncio.to_thread(own_server.control, "start")
        await store.write(say("after"))
        assert [(seq, words) for _, seq, words in await log_of(store)] == [
            (1, "before"), (2, "after"),
        ]  # fmt: skip


async def test_unit_that_is_perhaps_stored_is_not_run_again(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends before it answers the commit, and stays away for long."""
    for name, seconds in (("RECONNECT", 0.1), ("RESOLVE", 0.5)):
        monkeypatch.setattr(f"sshwarma.world.postgres_writer.MAX_{name}_SECONDS", seconds)
    runs = []

    def say_last(tx: Change) -> None:
        runs.append(say("perhaps")(tx))
        own_server.control("-m", "immediate", "stop")

    async with opened(await make_den(own_server)) as store:
        await store.write(say("before"))
        with pytest.raises(Unavailable, match="not known whether this was stored"):
            await store.write(say_last)
        await asyncio.to_thread(own_server.control, "start")
        await store.write(say("after"))
    assert len(runs) == 1


async def test_store_closes_without_a_wait_for_notifications(
    database: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sshwarma.world.postgres_listener.WAIT_SECONDS", 60.0)
    async with asyncio.timeout(20):
        async with opened(database) as store:
            await store.write(lambda tx: tx.now)


async def test_unit_waits_for_the_lock_of_another_writer(store: Store, database: Location) -> None:
    with psycopg.connect(address_of(database)) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (WORLD_LOCK,))
        waiting = asyncio.create_task(store.write(say("later")))
        assert not (await asyncio.wait({waiting}, timeout=0.3))[0]
        assert other.info.transaction_status == TransactionStatus.INTRANS
        other.rollback()
        assert (await waiting)[1] == 1


async def test_search_that_takes_too_long_is_refused(
    alice: Someone, database: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    await do(alice, "/note penguin")
    monkeypatch.setattr(search, "SEARCH_TIMEOUT_SECONDS", 0.2)
    with psycopg.connect(address_of(database)) as other:
        other.execute("LOCK TABLE rows IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Unavailable, match="The search took over"):
            await alice.world.store.read(
                lambda conn: search.search_rows(conn, "penguin", ["lobby"], 5)
            )
    assert len((await do(alice, "/search penguin")).entries) == 1


async def test_nul_in_a_question_is_no_error(alice: Someone) -> None:
    await do(alice, "a NUL: \0")
    assert [row.content for row in await alice.world.last_rows("lobby", 1)] == ["a NUL: ␀"]
    assert len((await do(alice, '/search "nul"')).entries) == 1
    assert (await refused(alice, "/examine x\0")).message
