"""Faults of units, of the connection and of others' settings, on PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from sshwarma.world import postgres_writer, rows, search, things
from sshwarma.world.databases import DatabaseUrl, Location, make_dialect
from sshwarma.world.events import RowAppended
from sshwarma.world.postgres_errors import UnknownCommitError, UnreachableError
from sshwarma.world.postgres_writer import PostgresWriter
from sshwarma.world.store import Change, Store
from support.rows import read_rows_after

pytestmark = [pytest.mark.postgres, pytest.mark.process]

Unit = Callable[[Change], Any]


@pytest.fixture
def published() -> list[Any]:
    return []


@pytest.fixture
async def store(database: Location, published: list[Any]) -> AsyncIterator[Store]:
    made = Store(make_dialect(database), published.append)
    for name in ("den", "den2"):
        await made.write(lambda tx, n=name: things.create_thing(tx, "rooms", "room", n, id=n))
    published.clear()
    yield made
    await made.close()


def say(words: str, room_id: str = "den") -> Callable[[Change], int]:
    return lambda tx: rows.append_row(tx, room_id, "chat", words, author_id=None).seq


def describe(words: str) -> Callable[[Change], int]:
    query = text("UPDATE things SET description = :words WHERE id = 'den'")
    return lambda tx: tx.conn.execute(query, {"words": words}).rowcount


async def description(store: Store) -> str | None:
    den = await store.read(lambda conn: things.get_thing(conn, "den"))
    assert den is not None
    return den.description


async def log_of(store: Store) -> list[str]:
    found = await store.read(lambda conn: read_rows_after(conn, "den", 0, 1_000))
    return [row.content for row in found]


async def run_batch(store: Store, *units: Unit) -> list[Any]:
    """Results and errors of units that are in one batch."""
    gate, reached = threading.Event(), threading.Event()

    def hold(tx: Change) -> bool:
        reached.set()
        return gate.wait(30)

    held = asyncio.create_task(store.write(hold))
    await asyncio.to_thread(reached.wait, 30)
    running = [asyncio.create_task(store.write(unit)) for unit in units]
    await asyncio.sleep(0)
    gate.set()
    await held
    return await asyncio.gather(*running, return_exceptions=True)


async def test_unit_that_ignores_an_error_fails_alone(store: Store) -> None:
    def swallow(tx: Change) -> str:
        with contextlib.suppress(Exception):
            tx.conn.execute(text("INSERT INTO things SELECT * FROM things"))
        return "fine"

    done = await run_batch(store, describe("kept"), swallow, say("also kept"))
    assert done[0] == 1
    assert isinstance(done[1], RuntimeError)
    assert done[2] == 1
    assert await description(store) == "kept"
    assert await log_of(store) == ["also kept"]


async def test_number_that_cannot_be_read_loses_no_earlier_unit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        postgres_writer, "_SELECT_LAST_SEQ", "SELECT 1 / 0 WHERE %s::text IS NOT NULL"
    )
    done = await run_batch(store, describe("kept"), say("refused", "den2"), describe("last"))
    assert [isinstance(found, BaseException) for found in done] == [False, True, False]
    assert await description(store) == "last"


async def test_text_that_cannot_be_sent_fails_its_unit_alone(store: Store) -> None:
    done = await run_batch(store, say("one"), say("bad \ud800"), say("two"))
    assert done[0] == 1
    assert isinstance(done[1], UnicodeEncodeError)
    assert done[2] == 2
    assert await log_of(store) == ["one", "two"]


class LostAnswer:
    """Lets the next commit reach the server, and loses its answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, found_after: float) -> None:
        self.left = 1
        self.until = time.monotonic() + found_after
        commit, read = PostgresWriter.commit, PostgresWriter._read_own_batch
        outer = self

        def lose(writer: PostgresWriter, events: Any) -> None:
            if not outer.left:
                return commit(writer, events)
            outer.left = 0
            driver = writer._require_driver()
            pipeline = driver.pipeline

            @contextlib.contextmanager
            def losing() -> Any:
                with pipeline() as made:
                    yield made
                driver.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")

            monkeypatch.setattr(driver, "pipeline", losing)
            return commit(writer, events)

        def find(writer: PostgresWriter) -> int | None:
            if time.monotonic() < outer.until:
                raise psycopg.OperationalError("connection refused")
            return read(writer)

        monkeypatch.setattr(PostgresWriter, "commit", lose)
        monkeypatch.setattr(PostgresWriter, "_read_own_batch", find)


async def test_commit_without_an_answer_is_not_run_again(
    store: Store, published: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    LostAnswer(monkeypatch, 0.5)
    assert await store.write(say("once")) == 1
    assert await store.write(say("twice")) == 2
    assert await log_of(store) == ["once", "twice"]
    heard = [event.row.content for event in published if isinstance(event, RowAppended)]
    assert heard == ["once", "twice"]


async def test_commit_whose_fate_is_unknown_says_so_and_is_heard_later(
    store: Store, published: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "MAX_RESOLVE_SECONDS", 0.5)
    monkeypatch.setattr(postgres_writer, "MAX_RECONNECT_SECONDS", 0.1)
    LostAnswer(monkeypatch, 1.5)
    with pytest.raises(UnknownCommitError, match="it is not known whether this was stored"):
        await store.write(say("once"))
    await asyncio.sleep(1.2)
    assert await store.write(say("twice")) == 2
    assert await log_of(store) == ["once", "twice"]
    heard = [event.row.content for event in published if isinstance(event, RowAppended)]
    assert heard == ["once", "twice"]


async def test_isolation_that_the_database_prefers_is_not_used(database: Location) -> None:
    assert isinstance(database, DatabaseUrl)
    with psycopg.connect(database.text, autocommit=True) as operator:
        name = operator.info.dbname
        operator.execute(
            f"ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'".encode()
        )
        operator.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
    pair = [Store(make_dialect(database), lambda event: None) for _ in range(2)]
    await pair[0].write(lambda tx: things.create_thing(tx, "rooms", "room", "den", id="den"))
    said = await asyncio.gather(*(pair[n % 2].write(say(f"{n}")) for n in range(400)))
    assert sorted(said) == list(range(1, 401))
    setting = await pair[0].write(
        lambda tx: tx.conn.exec_driver_sql("SHOW synchronous_commit").scalar_one()
    )
    assert setting == "on"
    for store in pair:
        await store.close()


async def test_outage_delays_one_batch_and_refuses_the_others_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_writer, "MAX_RECONNECT_SECONDS", 0.3)

    def refuse(writer: PostgresWriter) -> Any:
        raise psycopg.OperationalError("connection refused")

    clock = SimpleNamespace(sleep=time.sleep, monotonic=time.monotonic)
    monkeypatch.setattr(postgres_writer, "time", clock)
    with monkeypatch.context() as patch:
        patch.setattr(PostgresWriter, "_begin", refuse)
        tries = [0]
        patch.setattr(clock, "sleep", lambda seconds: tries.append(1))
        patch.setattr(clock, "monotonic", lambda: len(tries) * 0.1)
        done = await asyncio.gather(
            *(store.write(say(f"{n}")) for n in range(300)), return_exceptions=True
        )
        assert all(isinstance(found, UnreachableError) for found in done)
        assert len(tries) < 12, "it waited once"
    assert await store.write(say("back")) == 1


@pytest.mark.parametrize("value", ["x\0y", float("nan")])
async def test_facts_of_a_row_do_not_break_searches(store: Store, value: Any) -> None:
    await store.write(say("an apple"))
    await store.write(
        lambda tx: (
            rows.append_row(
                tx, "den", "tool.call", "apple", author_id=None, meta={"tool": value}
            ).seq
        )
    )
    hits = await store.read(lambda conn: search.search_rows(conn, "apple", ["den"], 5))
    assert len(hits) == 2


async def test_text_of_many_long_words_is_stored(store: Store) -> None:
    letters = [chr(0x20000 + number) for number in range(40_000)]
    words = " ".join(f"{letters[n]}{letters[n % 7]}" for n in range(40_000))
    await store.write(say((words + " ") * 3))
    hits = await store.read(lambda conn: search.search_rows(conn, letters[5] * 2, ["den"], 5))
    assert len(hits) == 1
