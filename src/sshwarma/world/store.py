"""The single writer and the readers of the database.

A unit of work is a plain function of a `Change`. Units queue for one writer thread, which runs them
one after another, each in a savepoint of one transaction, and commits them together: with
`synchronous=FULL` a commit waits for the disk, and sharing that wait makes thousands of durable
changes a second possible. After the commit the callers get their results, and the events of each
unit are published, in the order of the units.

Units use a synchronous SQLAlchemy `Connection`, so the same ones can serve PostgreSQL through
`AsyncConnection.run_sync`. SQLite runs in threads of this module and not through aiosqlite, which
would switch threads once per statement where this switches once per unit.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sshwarma.common.background import ignore_outcome
from sshwarma.common.limits import (
    MAX_QUEUED_WRITES,
    MAX_RUNNING_SEARCHES,
    MAX_WAITING_SEARCHES,
)
from sshwarma.common.refusals import count_refusal
from sshwarma.world.errors import Unavailable
from sshwarma.world.events import Event, WorldChanged
from sshwarma.world.ids import now_ms
from sshwarma.world.sqlite_engine import create_sqlite_engine
from sshwarma.world.store_errors import (
    DAMAGE_HINT,
    describe_read_error,
    describe_write_error,
    find_sqlite_error,
    is_damage,
)

log = structlog.get_logger(__name__)
T = TypeVar("T")

MAX_BATCH_UNITS = 512
"""Maximum number of units in one transaction, which bounds the wait of the first of them."""

MAX_PUBLISH_SECONDS = 0.005
"""Seconds that one turn of the event loop may spend publishing."""

MAX_POSTPONED_SECONDS = 0.1
"""Seconds that a unit which may be postponed waits for others to share its commit."""

READER_THREADS = 3
"""Reader threads, each with a connection of its own."""


class Change:
    """One unit of work while it runs: connection, time, and events it will cause.

    `cause` is the trigger in whose course it is, "" without one, and `is_external` says that a
    program asked for it; `hook_hops` are the hooks that it came through. The rows that it appends
    say so.
    """

    __slots__ = ("_last_seq", "cause", "conn", "events", "hook_hops", "is_external", "now")

    def __init__(self, conn: Connection, last_seq: dict[str, int]) -> None:
        self.conn = conn
        self.now = now_ms()
        self.events: list[Event] = []
        self.cause = ""
        self.is_external = False
        self.hook_hops = 0
        self._last_seq = last_seq

    def publish_on_commit(self, happened: Event) -> None:
        """Publish an event after this unit is committed, if it is."""
        # Units that make many things say of each that the world has changed: once is enough.
        if not (isinstance(happened, WorldChanged) and self.events[-1:] == [happened]):
            self.events.append(happened)

    def next_seq(self, room_id: str, read_last: Callable[[Connection, str], int]) -> int:
        """Return the room's next row number.

        The last one is remembered between units, because only the writer appends; a failing unit
        clears it.
        """
        last_seq = self._last_seq.get(room_id)
        if last_seq is None:
            last_seq = read_last(self.conn, room_id)
        self._last_seq[room_id] = last_seq + 1
        return last_seq + 1


@dataclass(slots=True)
class _WriteJob(Generic[T]):
    work: Callable[[Change], T]
    answer: asyncio.Future[T]
    may_postpone: bool = False
    result: T | None = None
    error: BaseException | None = None
    events: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class StoreCounts:
    """Running totals since the start, for metrics."""

    units: int = 0
    commits: int = 0
    failed_commits: int = 0
    commit_seconds: float = 0.0
    reads: int = 0


class Store:
    """The database file of one world.

    Created by `await Store.open(path)`; ended by `close`.

    Attributes:
        path: of the file.
        counts: what was done since the start.
        is_damaged: whether SQLite has found damage since the start; other pages may be sound.
    """

    def __init__(self, path: Path, publish: Callable[[Event], None]) -> None:
        self.path = path
        self.counts = StoreCounts()
        self.is_damaged = False
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._unpublished: deque[_WriteJob[Any]] = deque()  # committed, but not yet published
        self._jobs: queue.SimpleQueue[_WriteJob[Any] | None] = queue.SimpleQueue()
        self._writer_engine = create_sqlite_engine(path)
        self._reader_engine = create_sqlite_engine(path, read_only=True)
        self._local = threading.local()
        self._reader_connections: list[Connection] = []
        self._writer_connection: Connection | None = None
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="store-reader")
        self._search_slots = asyncio.Semaphore(MAX_RUNNING_SEARCHES)
        self._waiting_searches = 0
        self._writer = threading.Thread(target=self._write_all, name="store-writer", daemon=True)
        self._closed = False
        self._writer.start()

    async def write(self, work: Callable[[Change], T], *, may_postpone: bool = False) -> T:
        """Run a unit of work; return its result when it is on disk.

        With `may_postpone`, which is for units that nobody waits for, it may be
        MAX_POSTPONED_SECONDS later. The order of the units stays.

        Raises:
            Unavailable: if the world is shutting down, overloaded, or cannot be written to.
            Exception: any exception of `work`; then nothing of the unit is stored.
        """
        if self._closed:
            raise Unavailable("The world is shutting down.")
        if self._jobs.qsize() >= MAX_QUEUED_WRITES:
            count_refusal("writes")
            raise Unavailable("The world is too busy.", hint="Retry in a moment.")
        job: _WriteJob[T] = _WriteJob(work, self._loop.create_future(), may_postpone)
        self._jobs.put(job)
        return await job.answer

    async def probe(self) -> None:
        """Return when the writer has run a unit of work that writes nothing.

        Raises:
            Unavailable: as `write`; the writer works, although the database may not.
        """
        await self.write(lambda tx: tx.conn.exec_driver_sql("SELECT 1").all())

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a query on a reader's connection, in a thread."""
        self.counts.reads += 1
        result: T = await self._loop.run_in_executor(self._readers, self._read, query)
        return result

    async def read_search(self, query: Callable[[Connection], T]) -> T:
        """Run a query that may take seconds, as `read` does.

        MAX_RUNNING_SEARCHES run at a time.

        Raises:
            Unavailable: if MAX_WAITING_SEARCHES wait already.
        """
        if self._waiting_searches >= MAX_WAITING_SEARCHES:
            count_refusal("searches")
            raise Unavailable("Too many searches are waiting.", hint="Retry in a moment.")
        self._waiting_searches += 1
        try:
            await self._search_slots.acquire()
        finally:
            self._waiting_searches -= 1
        reading = self._loop.create_task(self.read(query))
        # Its thread is busy until the query ends, even if the caller is cancelled.
        reading.add_done_callback(lambda _: self._search_slots.release())
        reading.add_done_callback(ignore_outcome)
        return await asyncio.shield(reading)

    async def close(self) -> None:
        """Finish the waiting units, then end every thread and connection."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        await self._loop.run_in_executor(None, self._writer.join)
        self._readers.shutdown(wait=True)
        for connection in self._reader_connections:
            connection.close()
        if self._writer_connection is not None:
            self._writer_connection.close()  # last: only a writer can empty the WAL
        # The writer's last batch settles in callbacks that these turns of the loop run.
        await asyncio.sleep(0)
        while self._unpublished:  # noqa: ASYNC110 - the loop itself drains it
            await asyncio.sleep(0)
        self._writer_engine.dispose()
        self._reader_engine.dispose()

    def _read(self, query: Callable[[Connection], Any]) -> Any:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._reader_engine.connect()
            self._local.connection = connection
            self._reader_connections.append(connection)
        driver = _driver_connection(connection)
        driver.execute("BEGIN")  # one snapshot for the whole query
        try:
            result = query(connection)
        except DBAPIError as error:
            self._note_damage(error)
            raise describe_read_error(error) from error
        finally:
            driver.execute("ROLLBACK")
        return result

    def _write_all(self) -> None:
        last_seq: dict[str, int] = {}
        stop = False
        while not stop:
            batch, stop = self._take_batch()
            if batch:
                self._commit(batch, last_seq)
                self._loop.call_soon_threadsafe(self._settle, batch)

    def _take_batch(self) -> tuple[list[_WriteJob[Any]], bool]:
        """Return the units of the next commit, and whether the store is closing."""
        batch: list[_WriteJob[Any]] = []
        commit_at = 0.0  # while all units may be postponed
        job = self._jobs.get()
        while job is not None:
            if not batch and job.may_postpone:
                commit_at = time.monotonic() + MAX_POSTPONED_SECONDS
            if not job.may_postpone:
                commit_at = 0.0
            batch.append(job)
            if len(batch) == MAX_BATCH_UNITS:
                return batch, False
            try:
                job = self._jobs.get(timeout=max(commit_at - time.monotonic(), 0.0))
            except queue.Empty:
                return batch, False
        return batch, True

    def _commit(self, batch: list[_WriteJob[Any]], last_seq: dict[str, int]) -> None:
        start = time.perf_counter()
        try:
            self._run_in_transaction(batch, last_seq)
        except (sqlite3.Error, SQLAlchemyError, _AbandonedTransactionError) as error:
            self.counts.failed_commits += 1
            self._note_damage(error)
            last_seq.clear()
            cause = find_sqlite_error(error)
            refusal = describe_write_error(cause)
            event = (
                "the world cannot be written to"
                if isinstance(cause, sqlite3.OperationalError)  # the disk, a lock, a file
                else "a commit failed"
            )
            reason, detail = refusal.message, repr(cause or error)
            log.error(event, units=len(batch), reason=reason, error=detail)
            for job in batch:
                job.error = refusal
        else:
            self.counts.commits += 1
            self.counts.units += len(batch)
            self.counts.commit_seconds += time.perf_counter() - start

    def _run_in_transaction(self, batch: list[_WriteJob[Any]], last_seq: dict[str, int]) -> None:
        if self._writer_connection is None:
            # Of the first batch, and again after a failure: on a full disk not even this works.
            self._writer_connection = self._writer_engine.connect()
        connection = self._writer_connection
        driver = _driver_connection(connection)
        try:
            driver.execute("BEGIN IMMEDIATE")
            for job in batch:
                self._run(connection, driver, job, last_seq)
            driver.execute("COMMIT")
        except BaseException:
            if driver.in_transaction:
                driver.execute("ROLLBACK")
            raise

    def _run(
        self,
        connection: Connection,
        driver: sqlite3.Connection,
        job: _WriteJob[Any],
        last_seq: dict[str, int],
    ) -> None:
        change = Change(connection, last_seq)
        driver.execute("SAVEPOINT unit")
        try:
            job.result = job.work(change)
        except sqlite3.Error:
            raise
        except BaseException as error:
            self._note_damage(error)
            if not driver.in_transaction:
                raise _AbandonedTransactionError from error
            driver.execute("ROLLBACK TO unit")
            last_seq.clear()
            job.error = error
            if isinstance(error, StopIteration):  # a future cannot hold one
                job.error = RuntimeError("a unit of work raised StopIteration")
        else:
            job.events = change.events
        driver.execute("RELEASE unit")

    def _note_damage(self, error: BaseException) -> None:
        """Remember that the file is damaged, if an error says so; the first is logged."""
        if not self.is_damaged and is_damage(error):
            self.is_damaged = True
            log.critical("the database is damaged", path=str(self.path), remedy=DAMAGE_HINT)

    def _settle(self, batch: list[_WriteJob[Any]]) -> None:
        """Publish and answer, in order, after the batches that still wait."""
        idle = not self._unpublished
        self._unpublished.extend(batch)
        if idle:
            self._publish_some()

    def _publish_some(self) -> None:
        """Publish for MAX_PUBLISH_SECONDS, then let key presses in.

        A crowded room makes a batch expensive to publish.
        """
        deadline = time.perf_counter() + MAX_PUBLISH_SECONDS
        while self._unpublished and time.perf_counter() < deadline:
            job = self._unpublished[0]
            if job.error is None:
                for happened in job.events:
                    self._publish(happened)
            self._unpublished.popleft()
            if job.answer.done():  # its caller was cancelled; the commit stays
                continue
            if job.error is not None:
                job.answer.set_exception(job.error)
            else:
                job.answer.set_result(job.result)
        if self._unpublished:
            self._loop.call_soon(self._publish_some)


def _driver_connection(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - the engine above made it
    return driver


class _AbandonedTransactionError(Exception):
    """SQLite ended the whole transaction: the disk is full, or the file is broken."""
