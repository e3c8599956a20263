"""A world in an SQLite file: the dialect of one process on one machine."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sshwarma.common.files import NamedFile
from sshwarma.common.limits import MIN_WRITABLE_BYTES
from sshwarma.common.units import KIB
from sshwarma.world.dialect import ROW_COLUMNS, AbandonedTransactionError, DatabaseSizes
from sshwarma.world.errors import Unavailable
from sshwarma.world.events import Event
from sshwarma.world.ids import now_ms
from sshwarma.world.migrate import prepare_database
from sshwarma.world.schema import row_tags, rows
from sshwarma.world.schema_check import check_complete
from sshwarma.world.sqlite_engine import create_sqlite_engine
from sshwarma.world.store_errors import (
    describe_read_error,
    describe_write_error,
    find_sqlite_error,
    is_damage,
)

T = TypeVar("T")

MAX_BATCH_UNITS: Final = 512
"""Maximum number of units in one transaction, which bounds the wait of the first of them."""

# Appending is the one statement the world executes for every line anybody says, so its text is
# generated once: 15 us a row where generating it each time through Core costs 60
# (benchmarks/store.py).
_INSERT_ROW: Final = str(
    rows.insert().values(dict.fromkeys(ROW_COLUMNS)).compile(dialect=sqlite.dialect())
)

_INSERT_TAG: Final = row_tags.insert()
_SELECT_LAST_SEQ: Final = select(func.coalesce(func.max(rows.c.seq), 0)).where(
    rows.c.room_id == bindparam("room_id")
)


class SqliteDialect:
    """A database file. `path` is its place."""

    max_batch_units = MAX_BATCH_UNITS
    max_attempts = 1
    indexes_later = True
    slow_because = "the database is locked by another process, or its disk does not answer"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = str(path)
        self.disk = str(path.parent)
        self._file: NamedFile | None = None  # once it exists
        self._writer_engine = create_sqlite_engine(path)
        self._reader_engine = create_sqlite_engine(path, read_only=True)

    def prepare(self) -> None:
        """Create the file with the newest schema, or check that it has all of that.

        Raises:
            SchemaError: if it is damaged, or not at the newest schema.
        """
        prepare_database(self.path)
        check_complete(self.path)

    def claim(self) -> None:
        """Do nothing: the lock of the data directory keeps others away."""

    def check_place(self) -> None:
        """Check the room on the disk, and the file's name.

        Raises:
            Unavailable: if there is little room, or the file was moved.
        """
        check_free_space(self.path.parent)
        if self._file is not None and self._file.is_lost:
            # The server logs it once, when it looks at its data directory.
            raise Unavailable(
                "The file of the database was moved, deleted or replaced while the server runs:"
                " changes go to a file without its name. Put it back, or save the world with"
                " sshwarma backup FILE before the server is stopped."
            )

    def write_again(self, conn: Connection) -> None:
        """Write the first page of the database again, as it is.

        SQLite's user_version, which nothing here uses, stands in it.
        """
        version = conn.exec_driver_sql("PRAGMA user_version").scalar_one()
        conn.exec_driver_sql(f"PRAGMA user_version = {int(version)}")

    def measure_sizes(self, _conn: Connection) -> DatabaseSizes:
        """Return the sizes of the file and its write-ahead log, and of the disk.

        Raises:
            OSError: if the file cannot be read.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        disk = shutil.disk_usage(self.path.parent)
        files = {
            "db": self.path.stat().st_size,
            "wal": log.stat().st_size if log.exists() else 0,
        }
        return DatabaseSizes(files, disk.free, disk.total)

    def open_writer(self) -> SqliteWriter:
        """Connect for changes."""
        writer = SqliteWriter(self._writer_engine.connect())
        self._file = NamedFile(self.path)
        return writer

    def open_listener(self, _note_news: Callable[[], None], _note_lost: Callable[[], None]) -> None:
        """Return None: there are no other servers."""
        return

    def open_reader(self) -> SqliteReader:
        """Connect for reading."""
        return SqliteReader(self._reader_engine.connect())

    def ends_batch(self, error: BaseException) -> bool:
        """Return whether an error comes from the driver itself, past SQLAlchemy."""
        return isinstance(error, sqlite3.Error)

    def may_retry(self, _error: BaseException) -> bool:
        """Return False: nobody else writes, so that it would fail again."""
        return False

    def is_error(self, error: BaseException) -> bool:
        """Return whether an error comes from SQLite or from SQLAlchemy."""
        return isinstance(error, sqlite3.Error | SQLAlchemyError | AbandonedTransactionError)

    def is_damage(self, error: BaseException) -> bool:
        """Return whether SQLite says by an error that the file is damaged."""
        return is_damage(error)

    def describe_write_error(self, error: BaseException) -> tuple[Unavailable, str, str]:
        """Return the refusal of a change, the event for the log, and SQLite's own words."""
        cause = find_sqlite_error(error)
        event = (
            "the world cannot be written to"
            if isinstance(cause, sqlite3.OperationalError)  # the disk, a lock, a file
            else "a commit failed"
        )
        return describe_write_error(cause), event, repr(cause or error)

    def describe_unit_error(self, error: BaseException) -> BaseException:
        """Return the error as it is."""
        return error

    def describe_read_error(self, error: BaseException) -> BaseException:
        """Return the refusal of a read; the error itself if it is one of the program."""
        return describe_read_error(error) if isinstance(error, DBAPIError) else error

    def close(self) -> None:
        """Let go of the engines."""
        self._writer_engine.dispose()
        self._reader_engine.dispose()


class SqliteWriter:
    """The connection that changes the file. `conn` is SQLAlchemy's."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self._driver = _driver_of(conn)
        self._last_seq: dict[str, int] = {}  # by room: only this connection appends

    def begin(self, _attempt: int) -> None:
        """Begin a batch; another process may have the lock for a moment."""
        self._driver.execute("BEGIN IMMEDIATE")

    def now(self) -> int:
        """Return the time, in milliseconds since the Unix epoch."""
        return now_ms()

    def begin_unit(self) -> None:
        """Begin a unit of work."""
        self._driver.execute("SAVEPOINT unit")

    def keep_unit(self) -> None:
        """End a unit whose changes stay."""
        self._driver.execute("RELEASE unit")

    def undo_unit(self) -> None:
        """Take back what a unit has changed.

        Raises:
            AbandonedTransactionError: if SQLite has ended the transaction: the disk is full, or
                the file is broken.
        """
        if not self._driver.in_transaction:
            raise AbandonedTransactionError
        self._driver.execute("ROLLBACK TO unit")
        self._driver.execute("RELEASE unit")
        self._last_seq.clear()

    def commit(self, _events: Sequence[Event]) -> None:
        """Store the batch."""
        self._driver.execute("COMMIT")

    def read_others(self, *, has_news: bool) -> list[Event]:
        """Return nothing: there are no other servers."""
        return []

    def rollback(self) -> None:
        """Take back the batch, if there is one."""
        self._last_seq.clear()
        if self._driver.in_transaction:
            self._driver.execute("ROLLBACK")

    def next_seq(self, room_id: str) -> int:
        """Return the room's next row number.

        The last one is remembered between units; a failing unit clears it.
        """
        last_seq = self._last_seq.get(room_id)
        if last_seq is None:
            last_seq = int(self.conn.execute(_SELECT_LAST_SEQ, {"room_id": room_id}).scalar_one())
        self._last_seq[room_id] = last_seq + 1
        return last_seq + 1

    def next_n(self) -> int | None:
        """Return None: SQLite numbers the rows of the world."""
        return None

    def insert_row(self, values: Sequence[Any], tags: Iterable[str]) -> int:
        """Insert a row by the values of ROW_COLUMNS, with its tags; return its `n`."""
        n = int(self.conn.exec_driver_sql(_INSERT_ROW, tuple(values)).lastrowid)
        for tag in tags:
            self.conn.execute(_INSERT_TAG, {"row_id": values[0], "tag": tag})
        return n

    def close(self) -> None:
        """End the connection; the last one that writes empties the write-ahead log."""
        self.conn.close()


class SqliteReader:
    """A connection that only reads the file."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._driver = _driver_of(conn)

    def run(self, query: Callable[[Connection], T]) -> T:
        """Run a query in one snapshot of the file."""
        self._driver.execute("BEGIN")
        try:
            return query(self._conn)
        finally:
            self._driver.execute("ROLLBACK")

    def close(self) -> None:
        """End the connection."""
        self._conn.close()


def _driver_of(conn: Connection) -> sqlite3.Connection:
    driver = conn.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - the engine above made it
    return driver


def check_free_space(directory: Path) -> None:
    """Raise if the disk of a directory is full.

    Raises:
        Unavailable: if it has less than MIN_WRITABLE_BYTES, or cannot be asked.
    """
    try:
        free = shutil.disk_usage(directory).free
    except OSError as error:
        raise Unavailable(f"The data directory cannot be read: {error.strerror}.") from error
    if free < MIN_WRITABLE_BYTES:
        raise Unavailable(f"The disk is full: {free // KIB} KiB are free.")
