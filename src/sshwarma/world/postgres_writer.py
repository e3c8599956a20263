"""The connection that changes a world on PostgreSQL."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, event, select
from sqlalchemy.exc import DBAPIError

from sshwarma.world.dialect import AbandonedTransactionError
from sshwarma.world.event_text import list_row_numbers, read_events, write_events
from sshwarma.world.events import Event
from sshwarma.world.ids import now_ms
from sshwarma.world.postgres_connection import Driver, driver_of, end_connection
from sshwarma.world.postgres_errors import (
    UnknownCommitError,
    UnreachableError,
    find_postgres_error,
    is_lost_connection,
)
from sshwarma.world.postgres_gathered import GatheredRows
from sshwarma.world.postgres_listener import CHANNEL
from sshwarma.world.postgres_nodes import WORLD_LOCK, Node, NodeLostError, take_world_lock
from sshwarma.world.row import Row, row_from_mapping
from sshwarma.world.schema import rows

T = TypeVar("T")

MAX_RECONNECT_SECONDS: Final = 5.0
"""Seconds that the writer tries to reach the server again before changes are refused."""

KEPT_BATCHES: Final = 100_000
"""Batches that are kept for other servers. None is so slow: it would have been taken for dead."""

DELETION_INTERVAL: Final = 1_000
"""Batches of one server after which it deletes the oldest."""

MAX_RESOLVE_SECONDS: Final = 20.0
"""Seconds that the writer tries to find out whether a commit was stored that was not answered."""

RETRY_SECONDS: Final = (0.01, 0.05)
"""Minimum and maximum number of seconds before a batch is tried again: two shall not meet again."""

RECONNECT_PAUSE_SECONDS: Final = 0.1
"""Seconds between two tries to reach the server."""

_BEGIN: Final = b"""
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT pg_advisory_xact_lock(%d);
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
       CASE WHEN is_called THEN last_value ELSE last_value - 1 END
FROM rows_n_seq;
SELECT EXISTS (SELECT FROM nodes WHERE id = '%s' AND state = 'up');
SELECT room_id, max(seq) FROM rows WHERE n > %d GROUP BY room_id
"""
_SET_LAST_N: Final = "SELECT setval('rows_n_seq', %s)"
_INSERT_BATCH: Final = (
    "INSERT INTO batches (node_id, number, events) VALUES (%s, %s, %s) RETURNING n"
)
_NOTIFY: Final = "SELECT pg_notify(%s, %s)"
_SELECT_LAST_BATCH: Final = "SELECT coalesce(max(n), 0) FROM batches"
_SELECT_OWN_BATCH: Final = "SELECT n FROM batches WHERE node_id = %s AND number = %s"
_SELECT_BATCHES: Final = (
    "SELECT n, node_id, number, events FROM batches WHERE n > %s AND n < %s ORDER BY n"
)
_DELETE_BATCHES: Final = "DELETE FROM batches WHERE n < (SELECT max(n) FROM batches) - %s"
_NO_BOUND: Final = 2**62
_SELECT_LAST_SEQ: Final = "SELECT coalesce(max(seq), 0) FROM rows WHERE room_id = %s"


class PostgresWriter:
    """The connection that changes the world. It is made, and made again, by `begin`.

    `conn` is SQLAlchemy's, of the present connection.
    """

    conn: Connection

    def __init__(self, engine: Engine, node: Node) -> None:
        self._engine = engine
        self._node = node
        self._heard_n: int | None = None  # of the last batch whose events were published here
        self._own_n: int | None = None  # of the batch that was just committed
        self._driver: Driver | None = None
        self._is_down = False  # the server could not be reached at the last try
        self._unknown: set[int] = set()  # numbers of batches that may be stored
        self._number = 0  # of the batch, among those that this process has begun
        self._clock_offset_ms = 0  # of the server's clock from ours
        self._last_n = 0  # of the rows, those that are not inserted yet included
        self._begun_n = 0  # `_last_n` as others have left it before this batch
        self._stored_n = -1  # `_last_n` as the last commit of this process left it
        self._last_seq: dict[str, int] = {}  # by room
        self._n_before_unit = 0
        self._gathers = True
        self._kept: GatheredRows = GatheredRows()  # of earlier units of the batch
        self._own: GatheredRows = GatheredRows()  # of this unit
        self._in_unit = False
        self._has_savepoint = False  # of this unit
        self._open_savepoint = False  # of an earlier unit, not released yet

    def begin(self, attempt: int) -> None:
        """Begin a batch: take the lock of all writers, and read what they have done.

        Rows are inserted one by one at a later attempt, so that an error is of one unit.
        """
        if attempt:
            time.sleep(random.uniform(*RETRY_SECONDS))  # noqa: S311 - no secret
        self._gathers = attempt == 0
        self._number += 1
        self._reconnecting(self._begin)

    def _reconnecting(self, work: Callable[[], T]) -> T:
        """Run something that changes nothing, again on a new connection if one is lost.

        Raises:
            UnreachableError: if the server cannot be reached in MAX_RECONNECT_SECONDS, or at once
                if it could not be before.
        """
        deadline = time.monotonic() + (0.0 if self._is_down else MAX_RECONNECT_SECONDS)
        while True:
            try:
                result = work()
            except (psycopg.Error, DBAPIError) as error:
                found = find_postgres_error(error)
                if found is None or not is_lost_connection(found):
                    raise
                self.close()
                if time.monotonic() >= deadline:
                    self._is_down = True
                    raise UnreachableError from error
                time.sleep(RECONNECT_PAUSE_SECONDS)
            else:
                self._is_down = False
                return result

    def _begin(self) -> None:
        driver = self._connect()
        known_n = self._stored_n if self._stored_n >= 0 else _NO_BOUND
        values = (WORLD_LOCK, self._node.id.encode(), known_n)
        cursor = driver.execute(_BEGIN % values, prepare=False)
        results = [cursor.fetchall() if cursor.description else []]
        while cursor.nextset():
            results.append(cursor.fetchall() if cursor.description else [])
        *_, [(clock_ms, last_n)], [(is_up,)], last_seqs = results
        if self._node.is_registered and not is_up:
            raise NodeLostError
        self._clock_offset_ms = clock_ms - now_ms()
        self._last_n = self._begun_n = last_n
        if known_n == _NO_BOUND:
            self._last_seq.clear()
        else:
            self._last_seq.update(last_seqs)  # of rooms in which others have appended

    def _connect(self) -> Driver:
        if self._driver is None:
            self.conn = self._engine.connect()
            driver = driver_of(self.conn)
            event.listen(self.conn, "before_cursor_execute", self._before_statement)
            self._driver = driver
            self._stored_n = -1
            if self._heard_n is None:
                self._heard_n = int(_only(driver.execute(_SELECT_LAST_BATCH).fetchone())[0])
        return self._driver

    def now(self) -> int:
        """Return the time, in milliseconds since the Unix epoch, by the server's clock."""
        return now_ms() + self._clock_offset_ms

    def begin_unit(self) -> None:
        """Begin a unit of work; its savepoint is made when it needs one."""
        self._own = GatheredRows()
        self._in_unit, self._has_savepoint = True, False
        self._n_before_unit = self._last_n

    def keep_unit(self) -> None:
        """End a unit whose changes stay.

        Raises:
            AbandonedTransactionError: if the connection is lost.
            RuntimeError: if the unit went on after an error of the database, which has undone it.
        """
        status = self._require_driver().info.transaction_status
        if status == TransactionStatus.INERROR:
            raise RuntimeError("a unit of work went on after an error of the database")
        if status != TransactionStatus.INTRANS:
            raise AbandonedTransactionError
        self._in_unit = False
        self._kept.extend(self._own)
        self._own = GatheredRows()
        self._open_savepoint = self._open_savepoint or self._has_savepoint

    def undo_unit(self) -> None:
        """Take back what a unit has changed.

        Raises:
            AbandonedTransactionError: if the connection is lost, or what failed was no statement
                of the unit: then earlier units are undone, too.
        """
        self._in_unit = False
        self._own = GatheredRows()
        status = self._require_driver().info.transaction_status
        is_undoable = status == TransactionStatus.INERROR and self._has_savepoint
        if status != TransactionStatus.INTRANS and not is_undoable:
            raise AbandonedTransactionError
        if self._has_savepoint:
            self._execute("ROLLBACK TO SAVEPOINT unit")
            self._open_savepoint = True
        self._last_n = self._n_before_unit
        self._last_seq.clear()

    def commit(self, events: Sequence[Event]) -> None:
        """Store the batch, and tell other servers of its events.

        After a lost connection, find out whether it was stored.

        Raises:
            UnknownCommitError: if that cannot be found out.
        """
        driver = self._require_driver()
        batch = (self._node.id, self._number, write_events(events))
        try:
            with driver.pipeline():
                self._kept.insert(driver)
                if self._last_n != self._begun_n:
                    driver.execute(_SET_LAST_N, (self._last_n,))
                own = driver.execute(_INSERT_BATCH, batch)
                if events:
                    driver.execute(_NOTIFY, (CHANNEL, self._node.id))
                if self._number % DELETION_INTERVAL == 0:
                    driver.execute(_DELETE_BATCHES, (KEPT_BATCHES,))
                ended = driver.execute("COMMIT")
            if ended.statusmessage != "COMMIT":  # of a failed transaction it is a ROLLBACK
                raise AbandonedTransactionError
            self._own_n = int(_only(own.fetchone())[0])
        except Exception as error:
            if not isinstance(error, psycopg.Error) or not is_lost_connection(error):
                raise AbandonedTransactionError from error  # which unit's fault is not known yet
            self.close()
            self._own_n = self._find_own_batch(error)
            if self._own_n is None:
                raise
        self._kept = GatheredRows()
        self._open_savepoint = False
        self._stored_n = self._last_n

    def read_others(self, *, has_news: bool) -> list[Event]:
        """Return what other servers have published since the last call.

        After a commit, what came before it: all servers publish in one order. Else nothing, unless
        there is news of others.

        Raises:
            UnreachableError: if the server cannot be reached.
        """
        if self._own_n is None and not has_news:
            return []
        return self._reconnecting(self._read_others)

    def _read_others(self) -> list[Event]:
        driver, before = self._connect(), self._own_n
        assert self._heard_n is not None  # noqa: S101 - connecting sets it
        if before is not None and before == self._heard_n + 1:
            self._heard_n, self._own_n = before, None
            return []
        bound = before if before is not None else _NO_BOUND
        found = driver.execute(_SELECT_BATCHES, (self._heard_n, bound)).fetchall()
        others = [
            text for _, node_id, number, text in found
            if node_id != self._node.id or number in self._unknown
        ]  # fmt: skip
        numbers = [n for text in others for n in list_row_numbers(text)]
        rows_by_number = self._read_rows(numbers) if numbers else {}
        events = [event for text in others for event in read_events(text, rows_by_number)]
        if before is not None:
            self._heard_n, self._own_n = before, None
        elif found:
            self._heard_n = found[-1][0]
        return events

    def _read_rows(self, numbers: Sequence[int]) -> dict[int, Row]:
        query = select(rows).where(rows.c.n.in_(numbers))
        found = map(row_from_mapping, self.conn.execute(query).mappings())
        return {row.n: row for row in found}

    def rollback(self) -> None:
        """Take back the batch, if there is one."""
        self._kept, self._own = GatheredRows(), GatheredRows()
        self._in_unit = self._has_savepoint = self._open_savepoint = False
        self._stored_n = -1
        driver = self._driver
        if driver is None:
            return
        if driver.closed or driver.info.transaction_status == TransactionStatus.UNKNOWN:
            self.close()
        elif driver.info.transaction_status != TransactionStatus.IDLE:
            try:
                driver.execute("ROLLBACK")
            except psycopg.Error:  # the server takes back what has no connection any more
                self.close()

    def next_seq(self, room_id: str) -> int:
        """Return the room's next row number."""
        last_seq = self._last_seq.get(room_id)
        if last_seq is None:
            self._before_statement()  # units of this batch may have appended there
            cursor = self._require_driver().execute(_SELECT_LAST_SEQ, (room_id,))
            last_seq = int(_only(cursor.fetchone())[0])
        self._last_seq[room_id] = last_seq + 1
        return last_seq + 1

    def next_n(self) -> int:
        """Return the world's next row number."""
        self._last_n += 1
        return self._last_n

    def insert_row(self, values: Sequence[Any], tags: Iterable[str]) -> int:
        """Insert a row by the values of ROW_COLUMNS, with its tags; return its `n`."""
        for value in values:
            if isinstance(value, str):
                value.encode()  # or the whole batch would fail, which is inserted later
        n = self.next_n()
        self._own.rows.append((n, *values))
        self._own.tags += [(str(values[0]), tag) for tag in tags]
        if not self._gathers:
            self._before_statement()
        return n

    def close(self) -> None:
        """End the connection."""
        driver, self._driver = self._driver, None
        if driver is not None:
            event.remove(self.conn, "before_cursor_execute", self._before_statement)
            end_connection(self.conn)

    def _before_statement(self, *_: Any) -> None:
        """Insert what was gathered before a statement, which may read it."""
        self._insert_kept()
        if self._in_unit and not self._has_savepoint:
            release = "RELEASE SAVEPOINT unit;" if self._open_savepoint else ""
            self._open_savepoint = False
            self._execute(f"{release}SAVEPOINT unit")
            self._has_savepoint = True
        self._own.insert(self._require_driver())

    def _insert_kept(self) -> None:
        """Insert what earlier units have appended."""
        try:
            self._kept.insert(self._require_driver())
        except Exception as error:
            raise AbandonedTransactionError from error  # of an earlier unit, and not of this one

    def _execute(self, statement: str) -> None:
        self._require_driver().execute(statement.encode(), prepare=False)

    def _require_driver(self) -> Driver:
        if self._driver is None:
            raise AbandonedTransactionError
        return self._driver

    def _find_own_batch(self, error: psycopg.Error) -> int | None:
        """Return the `n` of a batch whose commit had no answer; None if it is not stored.

        The number of its transaction does not tell: PostgreSQL gives it to another one after a
        crash, if nothing of the first had reached the disk.
        """
        deadline = time.monotonic() + MAX_RESOLVE_SECONDS
        while time.monotonic() < deadline:
            try:
                return self._reconnecting(self._read_own_batch)
            except (psycopg.Error, DBAPIError, UnreachableError):
                self.close()
                time.sleep(RECONNECT_PAUSE_SECONDS)
        self._unknown.add(self._number)
        raise UnknownCommitError from error

    def _read_own_batch(self) -> int | None:
        driver = self._connect()
        with driver.transaction():
            # The transaction of the lost connection may not have ended yet: it has the lock.
            take_world_lock(driver)
            found = driver.execute(_SELECT_OWN_BATCH, (self._node.id, self._number)).fetchone()
        return None if found is None else int(found[0])


def _only(found: tuple[Any, ...] | None) -> tuple[Any, ...]:
    if found is None:
        raise AbandonedTransactionError
    return found
