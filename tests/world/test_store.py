"""The store: units of work are whole or absent, and on disk before answers.

Longer than 400 lines, because all of it needs the same store and the same crashes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text, update

from sshwarma.common.limits import MAX_RUNNING_SEARCHES
from sshwarma.world import rows, store, things
from sshwarma.world.errors import Unavailable, WorldError
from sshwarma.world.events import Event, RowAppended, WorldChanged
from sshwarma.world.migrate import migrate_database
from sshwarma.world.reader import PERSON
from sshwarma.world.schema import things as tree
from sshwarma.world.sqlite_dialect import SqliteDialect
from sshwarma.world.store import Change, Store
from support.rows import read_rows_after

SECONDS = 30.0


class Gate:
    """A unit of work that holds the writer until opened, so that others queue."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, tx: Change) -> None:
        self.reached.set()
        assert self.opened.wait(SECONDS)


@pytest.fixture
def received() -> list[Event]:
    return []


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables and nothing else."""
    path = tmp_path_factory.mktemp("empty") / "world.db"
    migrate_database(path)
    return path


@pytest.fixture
async def kept(template: Path, tmp_path: Path, received: list[Event]) -> AsyncIterator[Store]:
    """A store with the tables and one room, and nothing else."""
    path = Path(shutil.copyfile(template, tmp_path / "store.db"))
    opened = Store(SqliteDialect(path), received.append)
    await opened.write(lambda tx: things.create_thing(tx, None, "room", "den", id="den"))  # type: ignore[arg-type]
    received.clear()
    yield opened
    await opened.close()


def say(words: str) -> Callable[[Change], int]:
    return lambda tx: rows.append_row(tx, "den", "chat", words, author_id=None).seq


async def log_of(kept: Store) -> list[tuple[int, str]]:
    found = await kept.read(lambda conn: read_rows_after(conn, "den", 0, 10_000))
    return [(row.seq, row.content) for row in found]


async def hold(kept: Store) -> tuple[Gate, asyncio.Task[None]]:
    """Stop the writer at a gate; writes from now on wait in the queue, as one batch."""
    gate = Gate()
    held = asyncio.create_task(kept.write(gate))
    await asyncio.get_running_loop().run_in_executor(None, gate.reached.wait, SECONDS)
    return gate, held


async def queued(kept: Store, *works: Callable[[Change], Any]) -> list[asyncio.Task[Any]]:
    """Units handed over in that order."""
    waiting = [asyncio.create_task(kept.write(work)) for work in works]
    await asyncio.sleep(0)
    return waiting


async def test_failing_unit_writes_nothing(kept: Store, received: list[Event]) -> None:
    def half(tx: Change) -> None:
        say("half")(tx)
        things.create_thing(tx, "den", "data", "half")
        raise WorldError("no")

    with pytest.raises(WorldError, match="no"):
        await kept.write(half)
    assert await log_of(kept) == []
    assert await kept.read(lambda conn: things.read_children(conn, "den")) == []
    assert received == []


async def test_failing_unit_does_not_affect_its_batch(kept: Store, received: list[Event]) -> None:
    def fails(tx: Change) -> None:
        say("lost")(tx)
        raise ZeroDivisionError

    gate, held = await hold(kept)
    waiting = await queued(kept, say("one"), fails, say("two"), fails, say("three"))
    commits = kept.counts.commits
    gate.opened.set()
    answers = await asyncio.gather(held, *waiting, return_exceptions=True)
    assert [type(a) for a in answers[1:]] == [int, ZeroDivisionError, int, ZeroDivisionError, int]
    assert await log_of(kept) == [(1, "one"), (2, "two"), (3, "three")]
    assert [e.row.content for e in received if isinstance(e, RowAppended)] == [
        "one",
        "two",
        "three",
    ]
    assert kept.counts.commits == commits + 2, "the gate's, and one for all five"


async def test_postponed_unit_shares_the_commit_of_the_next(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sshwarma.world.store.MAX_POSTPONED_SECONDS", 3_600.0)
    commits = kept.counts.commits
    leaving = asyncio.create_task(kept.write(say("leaves"), may_postpone=True))
    await asyncio.sleep(0)
    await kept.write(say("arrives"))
    await leaving
    assert await log_of(kept) == [(1, "leaves"), (2, "arrives")]
    assert kept.counts.commits == commits + 1


async def test_postponed_unit_is_stored_without_another(kept: Store) -> None:
    await kept.write(say("leaves"), may_postpone=True)
    assert await log_of(kept) == [(1, "leaves")]


async def test_close_stores_a_postponed_unit(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sshwarma.world.store.MAX_POSTPONED_SECONDS", 3_600.0)
    leaving = asyncio.create_task(kept.write(say("leaves"), may_postpone=True))
    await asyncio.sleep(0)
    await kept.close()
    assert await leaving == 1


async def test_stop_iteration_in_a_unit_does_not_block_its_batch(kept: Store) -> None:
    def stops(tx: Change) -> None:
        next(iter(()))  # a StopIteration, which no future takes

    gate, held = await hold(kept)
    waiting = await queued(kept, stops, say("still here"))
    gate.opened.set()
    await held
    async with asyncio.timeout(SECONDS):
        answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers[0], RuntimeError)
    assert answers[1] == 1


async def test_results_and_events_follow_the_commit(kept: Store, tmp_path: Path) -> None:
    other = sqlite3.connect(f"file:{tmp_path / 'store.db'}?mode=ro", uri=True)
    seen_when_published: list[int] = []
    kept._publish = lambda _: seen_when_published.append(
        other.execute("SELECT count(*) FROM rows").fetchone()[0]
    )
    gate, held = await hold(kept)
    waiting = await queued(kept, *(say(str(n)) for n in range(5)))
    assert not any(task.done() for task in waiting)
    assert other.execute("SELECT count(*) FROM rows").fetchone()[0] == 0
    gate.opened.set()
    await asyncio.gather(held, *waiting)
    assert seen_when_published == [5] * 5, (
        "every event was published after all of its batch was stored"
    )
    other.close()


async def test_events_are_published_in_order_before_the_results(
    kept: Store, received: list[Event]
) -> None:
    order: list[object] = []
    kept._publish = order.append

    async def write(n: int) -> None:
        def two(tx: Change) -> None:
            tx.publish_on_commit(WorldChanged(f"first {n}"))
            tx.publish_on_commit(WorldChanged(f"second {n}"))

        await kept.write(two)
        order.append(f"answered {n}")

    await asyncio.gather(*(write(n) for n in range(20)))
    events = [event.room_id for event in order if isinstance(event, WorldChanged)]
    assert events == [f"{which} {n}" for n in range(20) for which in ("first", "second")]
    for n in range(20):
        assert order.index(f"answered {n}") > order.index(WorldChanged(f"second {n}"))


async def test_cancelled_caller_does_not_undo_its_write(kept: Store, received: list[Event]) -> None:
    gate, held = await hold(kept)
    waiting = await queued(kept, say("given up"), say("waited for"))
    waiting[0].cancel()
    gate.opened.set()
    answers = await asyncio.gather(held, *waiting, return_exceptions=True)
    assert isinstance(answers[1], asyncio.CancelledError)
    assert answers[2] == 2
    # The running write is stored and published once; no reader saw a part of it.
    assert await log_of(kept) == [(1, "given up"), (2, "waited for")]
    assert len(received) == 2


async def test_write_queue_is_bounded(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_QUEUED_WRITES", 10)
    gate, held = await hold(kept)
    waiting = await queued(kept, *(say(str(n)) for n in range(10)))
    with pytest.raises(Unavailable, match="too busy"):
        await kept.write(say("one over"))
    gate.opened.set()
    await asyncio.gather(held, *waiting)
    assert await kept.write(say("again")) == 11


async def test_batch_size_is_bounded(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteDialect, "max_batch_units", 4)
    gate, held = await hold(kept)
    before = kept.counts.commits
    waiting = await queued(kept, *(say(str(n)) for n in range(9)))
    gate.opened.set()
    await asyncio.gather(held, *waiting)
    assert kept.counts.commits - before == 1 + 3
    assert [seq for seq, _ in await log_of(kept)] == list(range(1, 10))


async def test_close_finishes_queued_writes_and_refuses_new_ones(kept: Store) -> None:
    gate, held = await hold(kept)
    waiting = await queued(kept, *(say(str(n)) for n in range(30)))
    closing = asyncio.create_task(kept.close())
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="shutting down"):
        await kept.write(say("too late"))
    gate.opened.set()
    await closing
    assert held.done()
    assert [task.result() for task in waiting] == list(range(1, 31))
    with sqlite3.connect(kept.path) as after:
        assert after.execute("SELECT count(*) FROM rows").fetchone() == (30,)
    after.close()


async def test_a_closed_store_is_one_file(kept: Store) -> None:
    """A copy of the file of a stopped world is complete."""
    await asyncio.gather(*(kept.read(lambda conn: things.get_thing(conn, "den")) for _ in range(9)))
    await kept.write(say("last words"))
    await kept.close()
    assert await asyncio.to_thread(os.listdir, kept.path.parent) == ["store.db"]


async def test_log_has_no_ties_and_no_gaps_under_many_writers(kept: Store) -> None:
    rooms = ["den", "attic", "cellar"]
    for name in rooms[1:]:
        await kept.write(lambda tx, name=name: things.create_thing(tx, None, "room", name, id=name))  # type: ignore[arg-type]

    async def writer(n: int) -> int:
        done = 0
        for turn in range(6):

            def unit(tx: Change, turn: int = turn) -> None:
                for room in rooms[: 1 + (n + turn) % 3]:
                    rows.append_row(tx, room, "chat", f"{n}.{turn}", author_id=None)
                if (n + turn) % 5 == 0:
                    raise WorldError("this one does not count")

            try:
                await kept.write(unit)
                done += 1
            except WorldError:
                pass
        return done

    done = await asyncio.gather(*(writer(n) for n in range(200)))
    assert sum(done) == 200 * 6 * 4 // 5

    def check(conn: Any) -> None:
        for room in rooms:
            seqs = [row.seq for row in read_rows_after(conn, room, 0, 10_000)]
            assert seqs == list(range(1, len(seqs) + 1))
        in_den = [row.content for row in read_rows_after(conn, "den", 0, 10_000)]
        assert len(in_den) == len(set(in_den)) == sum(done)
        for n in (0, 77, 199):
            own = [words for words in in_den if words.startswith(f"{n}.")]
            assert own == sorted(own), "one writer's rows stay in order"

    await kept.read(check)


async def test_store_that_cannot_open_its_file_refuses_and_tries_again(tmp_path: Path) -> None:
    """A full disk is such a case: SQLite writes when it opens a file with a log."""
    broken = Store(SqliteDialect(tmp_path / "missing" / "world.db"), print)
    for _ in range(2):
        with pytest.raises(Unavailable, match="could not be written"):
            await asyncio.wait_for(broken.write(lambda tx: tx.now), SECONDS)
    broken.path.parent.mkdir()
    assert await asyncio.wait_for(broken.write(lambda tx: tx.now), SECONDS) > 0
    await broken.close()


async def test_full_disk_refuses_writes_and_allows_reads(
    kept: Store, received: list[Event]
) -> None:
    await kept.write(say("before"))
    await kept.write(lambda tx: things.create_thing(tx, "den", "data", "small"))

    def fill_up(tx: Change) -> None:
        pages = tx.conn.exec_driver_sql("PRAGMA page_count").scalar_one()
        tx.conn.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def make_room(tx: Change) -> None:
        tx.conn.exec_driver_sql("PRAGMA max_page_count = 1000000")

    await kept.write(fill_up)
    received.clear()
    for too_big in (
        say("x" * 100_000),
        lambda tx: things.update_thing(
            tx, "den", content="x" * 100_000
        ),  # SQLite takes back this only
        lambda tx: things.create_thing(tx, "den", "data", "big", content="x" * 100_000),
        lambda tx: tx.conn.execute(update(tree).values(content="x" * 100_000)),
    ):
        with pytest.raises(Unavailable, match="disk is full") as caught:
            await kept.write(too_big)
        assert "Reading still works" in caught.value.hint_for(PERSON)
    assert await log_of(kept) == [(1, "before")]
    assert received == []
    await kept.write(make_room)
    assert await kept.write(say("after")) == 2


async def test_each_unit_on_a_full_disk_is_stored_or_refused(
    kept: Store, received: list[Event]
) -> None:
    """Either a unit is stored and answered so, or refused and not stored."""

    def fill_up(tx: Change) -> None:
        pages = tx.conn.exec_driver_sql("PRAGMA page_count").scalar_one()
        tx.conn.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    await kept.write(fill_up)
    gate, held = await hold(kept)
    waiting = await queued(kept, say("small"), say("x" * 100_000), say("tiny"))
    gate.opened.set()
    answers = await asyncio.gather(held, *waiting, return_exceptions=True)
    stored = {words for _, words in await log_of(kept)}
    for words, answer in zip(("small", "x" * 100_000, "tiny"), answers[1:], strict=True):
        assert isinstance(answer, int) == (words in stored)
        assert isinstance(answer, int | Unavailable)
    assert {event.row.content for event in received if isinstance(event, RowAppended)} == stored


async def test_read_only_file_refuses_writes(kept: Store, received: list[Event]) -> None:
    await kept.write(say("before"))
    received.clear()
    await kept.write(lambda tx: tx.conn.exec_driver_sql("PRAGMA query_only = ON"))
    with pytest.raises(Unavailable, match="read-only"):
        await kept.write(say("no"))
    assert await log_of(kept) == [(1, "before")]
    assert received == []


async def test_a_reader_cannot_write(kept: Store) -> None:
    with pytest.raises(Unavailable):
        await kept.read(lambda conn: conn.execute(text("DELETE FROM things")))
    assert await kept.read(lambda conn: things.get_thing(conn, "den")) is not None


async def test_read_sees_one_snapshot(kept: Store) -> None:
    await kept.write(say("one"))
    counted = text("SELECT count(*) FROM rows")
    started, go_on = threading.Event(), threading.Event()

    def twice(conn: Any) -> tuple[int, int]:
        first = conn.execute(counted).scalar_one()
        started.set()
        assert go_on.wait(SECONDS)
        return first, conn.execute(counted).scalar_one()

    reading = asyncio.create_task(kept.read(twice))
    await asyncio.get_running_loop().run_in_executor(None, started.wait, SECONDS)
    await kept.write(say("two"))
    go_on.set()
    assert await reading == (1, 1)


async def test_searches_leave_threads_to_other_reads(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_WAITING_SEARCHES", 2 * store.READER_THREADS)
    opened, started = threading.Event(), threading.Semaphore(0)
    running: list[int] = []
    most: list[int] = []

    def search(_: Connection) -> str:
        running.append(1)
        most.append(len(running))
        started.release()
        assert opened.wait(SECONDS)
        running.pop()
        return "found"

    searches = [
        asyncio.create_task(kept.read_search(search)) for _ in range(2 * store.READER_THREADS + 1)
    ]
    await asyncio.get_running_loop().run_in_executor(None, started.acquire, True, SECONDS)
    searches[0].cancel()  # its thread is busy all the same
    async with asyncio.timeout(SECONDS):
        assert await kept.read(lambda conn: conn.execute(text("SELECT 7")).scalar_one()) == 7
    with pytest.raises(Unavailable, match="Too many searches are waiting"):
        await kept.read_search(search)
    opened.set()
    assert await asyncio.gather(*searches[1:]) == ["found"] * 2 * store.READER_THREADS
    assert max(most) == MAX_RUNNING_SEARCHES < store.READER_THREADS


async def test_refusal_and_log_do_not_depend_on_stored_text(
    kept: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    def abandon(tx: Change) -> None:
        tx.conn.exec_driver_sql("ROLLBACK")
        tx.conn.execute(text("SELECT :said FROM nowhere"), {"said": "the readonly moon is full"})

    with pytest.raises(Unavailable, match="The database could not be written"):
        await kept.write(abandon)
    logged = capsys.readouterr()
    assert "no such table" in logged.out + logged.err
    assert "moon" not in logged.out + logged.err
    assert await kept.write(say("after")) == 1
