"""The single writer and the readers of the database.

A unit of work is a plain function of a `Change`. Units queue for one writer thread, which runs them
one after another, each in a savepoint of one transaction, and commits them together: with
`synchronous=FULL` a commit waits for the disk, and sharing that wait makes thousands of durable
changes a second possible. After the commit the callers get their results, and the events of each
unit are published, in the order of the units.

Units use a synchronous SQLAlchemy `Connection` in threads of this module and not in the event loop:
an asynchronous driver would switch threads or tasks once per statement where this switches once per
unit. What differs between SQLite and PostgreSQL is behind `dialect.Dialect`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

from sshwarma.common.background import ignore_outcome
from sshwarma.common.limits import (
    MAX_QUEUED_WRITES,
    MAX_RUNNING_SEARCHES,
    MAX_WAITING_SEARCHES,
)
from sshwarma.common.refusals import count_refusal
from sshwarma.world.dialect import AbandonedTransactionError, Dialect, SnapshotReader, Writer
from sshwarma.world.errors import Unavailable
from sshwarma.world.events import Event, WorldChanged
from sshwarma.world.sqlite_dialect import SqliteDialect
from sshwarma.world.store_errors import DAMAGE_HINT
from sshwarma.world.store_queue import NEWS, HeardEvents, News, QueuedJob, WriteJob

log = structlog.get_logger(__name__)
T = TypeVar("T")

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
    say so. A unit may be run again, with another of these, after its transaction failed: it has no
    effect but through this, and what is needed outside it returns, or sets at its end.
    """

    __slots__ = ("_writer", "cause", "conn", "events", "hook_hops", "is_external", "now")

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.conn = writer.conn
        self.now = writer.now()
        self.events: list[Event] = []
        self.cause = ""
        self.is_external = False
        self.hook_hops = 0

    def publish_on_commit(self, happened: Event) -> None:
        """Publish an event after this unit is committed, if it is."""
        # Units that make many things say of each that the world has changed: once is enough.
        if not (isinstance(happened, WorldChanged) and self.events[-1:] == [happened]):
            self.events.append(happened)

    def next_seq(self, room_id: str) -> int:
        """Return the room's next row number."""
        return self._writer.next_seq(room_id)

    def next_n(self) -> int | None:
        """Return the world's next row number; None if the database numbers rows."""
        return self._writer.next_n()

    def insert_row(self, values: Sequence[Any], tags: Iterable[str] = ()) -> int:
        """Insert a row by the values of `ROW_COLUMNS`, with its tags; return its `n`."""
        return self._writer.insert_row(values, tags)


@dataclass(slots=True)
class StoreCounts:
    """Running totals since the start, for metrics."""

    units: int = 0
    commits: int = 0
    failed_commits: int = 0
    commit_seconds: float = 0.0
    reads: int = 0


class Store:
    """The database of one world. Ended by `close`.

    Attributes:
        dialect: the database.
        counts: what was done since the start.
        lost: set when another server has taken over this world.
        is_damaged: whether the database has found damage since the start; the rest may be sound.
    """

    def __init__(self, dialect: Dialect, publish: Callable[[Event], None]) -> None:
        self.dialect = dialect
        self.counts = StoreCounts()
        self.lost = asyncio.Event()
        self.is_damaged = False
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._unpublished: deque[WriteJob[Any] | HeardEvents] = (
            deque()
        )  # committed, but not yet published
        self._jobs: queue.SimpleQueue[QueuedJob] = queue.SimpleQueue()
        self._local = threading.local()
        self._reader_connections: list[SnapshotReader] = []
        self._writer_connection: Writer | None = None
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="store-reader")
        self._has_news = False  # of other servers; of the writer's thread
        self._search_slots = asyncio.Semaphore(MAX_RUNNING_SEARCHES)
        self._waiting_searches = 0
        self._writer = threading.Thread(target=self._write_all, name="store-writer", daemon=True)
        self._closed = False
        self._writer.start()
        self._listener = dialect.open_listener(lambda: self._jobs.put(NEWS), self._note_lost)

    @property
    def is_file(self) -> bool:
        """Whether the world is in a file, and not on a database server."""
        return isinstance(self.dialect, SqliteDialect)

    @property
    def path(self) -> Path:
        """The database file.

        Raises:
            TypeError: if the world is not in a file.
        """
        if not isinstance(self.dialect, SqliteDialect):
            raise TypeError(f"the world is not in a file, but in {self.dialect.place}")
        return self.dialect.path

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
        job: WriteJob[T] = WriteJob(work, self._loop.create_future(), may_postpone)
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
        if self._listener is not None:
            await self._loop.run_in_executor(None, self._listener.close)
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
        await self._loop.run_in_executor(None, self.dialect.close)

    def _read(self, query: Callable[[Connection], Any]) -> Any:
        reader: SnapshotReader | None = getattr(self._local, "reader", None)
        try:
            if reader is None:
                reader = self._local.reader = self.dialect.open_reader()
                self._reader_connections.append(reader)
            return reader.run(query)
        except Exception as error:
            self._note_damage(error)
            refusal = self.dialect.describe_read_error(error)
            if refusal is error:
                raise
            raise refusal from error

    def _write_all(self) -> None:
        stop = False
        while not stop:
            batch, stop = self._take_batch()
            if batch:
                self._commit(batch)
            heard = self._read_others()
            if batch or heard:
                self._loop.call_soon_threadsafe(self._settle, heard, batch)

    def _take_batch(self) -> tuple[list[WriteJob[Any]], bool]:
        """Return the units of the next commit, and whether the store is closing.

        News of other servers ends a batch, also an empty one.
        """
        batch: list[WriteJob[Any]] = []
        commit_at = 0.0  # while all units may be postponed
        job = self._jobs.get()
        while job is not None:
            if isinstance(job, News):
                self._has_news = True
                return batch, False
            if not batch and job.may_postpone:
                commit_at = time.monotonic() + MAX_POSTPONED_SECONDS
            if not job.may_postpone:
                commit_at = 0.0
            batch.append(job)
            if len(batch) == self.dialect.max_batch_units:
                return batch, False
            try:
                job = self._jobs.get(timeout=max(commit_at - time.monotonic(), 0.0))
            except queue.Empty:
                return batch, False
        return batch, True

    def _read_others(self) -> list[Event]:
        """Return what other servers have published; nothing if that cannot be read now."""
        writer, has_news = self._writer_connection, self._has_news
        self._has_news = False
        try:
            return [] if writer is None else writer.read_others(has_news=has_news)
        except Exception as error:  # or nothing would be written any more
            if not self.dialect.is_error(error):
                log.exception("changes of other servers cannot be read")
            else:
                log.error("changes of other servers cannot be read", error=type(error).__name__)
            return []

    def _commit(self, batch: list[WriteJob[Any]]) -> None:
        start = time.perf_counter()
        for attempt in range(self.dialect.max_attempts):
            try:
                self._run_in_transaction(batch, attempt)
            except Exception as error:
                if not self.dialect.is_error(error):
                    log.exception("a commit failed", units=len(batch))
                    for job in batch:
                        job.error = error
                    return
                self.counts.failed_commits += 1
                if attempt + 1 == self.dialect.max_attempts or not self.dialect.may_retry(error):
                    self._refuse(batch, error)
                    return
            else:
                break
        self.counts.commits += 1
        self.counts.units += len(batch)
        self.counts.commit_seconds += time.perf_counter() - start

    def _refuse(self, batch: list[WriteJob[Any]], error: Exception) -> None:
        self._note_damage(error)
        refusal, event, detail = self.dialect.describe_write_error(error)
        log.error(event, units=len(batch), reason=refusal.message, error=detail)
        for job in batch:
            job.error = refusal

    def _run_in_transaction(self, batch: list[WriteJob[Any]], attempt: int) -> None:
        if self._writer_connection is None:
            # Of the first batch, and again after a failure: on a full disk not even this works.
            self._writer_connection = self.dialect.open_writer()
        writer = self._writer_connection
        try:
            writer.begin(attempt)
            for job in batch:
                self._run(writer, job)
            writer.commit([event for job in batch for event in job.events])
        except BaseException:
            writer.rollback()
            raise

    def _run(self, writer: Writer, job: WriteJob[Any]) -> None:
        job.error, job.events = None, []  # of an earlier attempt
        change = Change(writer)
        writer.begin_unit()
        try:
            job.result = job.work(change)
            writer.keep_unit()
        except BaseException as error:
            if self.dialect.ends_batch(error):
                raise
            self._note_damage(error)
            job.error = self.dialect.describe_unit_error(error)
            if isinstance(error, StopIteration):  # a future cannot hold one
                job.error = RuntimeError("a unit of work raised StopIteration")
            try:
                writer.undo_unit()
            except AbandonedTransactionError as ended:
                raise ended from error
        else:
            job.events = change.events

    def _note_lost(self) -> None:
        self._loop.call_soon_threadsafe(self.lost.set)

    def _note_damage(self, error: BaseException) -> None:
        """Remember that the database is damaged, if an error says so; log the first."""
        if not self.is_damaged and self.dialect.is_damage(error):
            self.is_damaged = True
            log.critical("the database is damaged", path=self.dialect.place, remedy=DAMAGE_HINT)

    def _settle(self, heard: list[Event], batch: list[WriteJob[Any]]) -> None:
        """Publish and answer, in order, after the batches that still wait."""
        idle = not self._unpublished
        if heard:
            self._unpublished.append(HeardEvents(heard))
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
            if isinstance(job, HeardEvents) or job.error is None:
                for happened in job.events:
                    self._publish(happened)
            self._unpublished.popleft()
            if (
                isinstance(job, HeardEvents) or job.answer.done()
            ):  # its caller was cancelled; the commit stays
                continue
            if job.error is not None:
                job.answer.set_exception(job.error)
            else:
                job.answer.set_result(job.result)
        if self._unpublished:
            self._loop.call_soon(self._publish_some)
