"""Reading an SQLite file of strangers: its plain tables, within limits.

The file is never changed: without a log beside it, it is opened as immutable, which makes no file
and takes no lock; with one, a private copy of both is read. Views and virtual tables are not read,
because they run what the file says; nor are functions that it names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sshwarma.common.limits import (
    IMPORT_READ_SECONDS,
    MAX_IMPORT_FILE_BYTES,
    MAX_IMPORT_ROWS,
    MAX_IMPORT_TEXT_BYTES,
)
from sshwarma.common.read_only_database import connect_read_only
from sshwarma.common.shorten import shorten_text
from sshwarma.common.units import MIB
from sshwarma.world.errors import Invalid

SQLITE_MAGIC: Final = b"SQLite format 3\0"

LOG_ENDINGS: Final = ("-wal",)
"""Endings of the files beside a database that may have a part of its rows."""

JOURNAL_ENDING: Final = "-journal"
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")

_ALLOWED_FUNCTIONS: Final = frozenset({"typeof", "length", "count", "min"})
_OPERATIONS_PER_CHECK: Final = 200_000
_GENERATED: Final = (2, 3)
"""Values of `hidden` in `table_xinfo`: the column is computed by what the file says."""


class CellError(Exception):
    """A value cannot be imported; the text says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a table as it is stored; a text is bytes of any encoding."""

    value: Any
    type: str

    @property
    def is_null(self) -> bool:
        """Whether there is no value."""
        return self.type == "null"

    def text(self) -> str:
        """Return a text; "" for NULL.

        Raises:
            CellError: if it is something else, too long, or not UTF-8.
        """
        if self.type == "null":
            return ""
        if self.type != "text":
            raise CellError(f"is a value of type {self.type}, and not a text")
        if self.value is None:
            raise CellError(f"longer than {MAX_IMPORT_TEXT_BYTES // MIB} MiB")
        try:
            return str(self.value, "utf-8")
        except UnicodeDecodeError:
            raise CellError("not UTF-8") from None

    def name(self) -> str:
        """Return a text, or a number as text.

        Raises:
            CellError: as `text`.
        """
        return str(self.value) if self.type == "integer" else self.text()

    def integer(self) -> int:
        """Return a whole number.

        Raises:
            CellError: if it is something else.
        """
        if self.type != "integer" or not isinstance(self.value, int):
            raise CellError(f"is a value of type {self.type}, and not a whole number")
        return self.value


class SqliteSource:
    """An open database; `path` is the file that people named."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._path = path
        self._end = 0.0
        connection.set_progress_handler(lambda: time.monotonic() > self._end, _OPERATIONS_PER_CHECK)
        with self._reading():
            query = "SELECT name, type, rootpage FROM sqlite_schema WHERE name NOT NULL"
            found = connection.execute(query).fetchmany(MAX_IMPORT_ROWS)
            self._columns = {
                name: self._read_columns(name)
                for raw, kind, page in found
                if kind == b"table" and isinstance(page, int) and page > 0
                for name in (str(raw, "utf-8", "replace"),)
                if not name.startswith("sqlite_")
            }
            self._others = {
                str(raw, "utf-8", "replace"): "a view" if kind == b"view" else "a virtual table"
                for raw, kind, page in found
                if kind == b"view" or (kind == b"table" and not page)
            }
        connection.set_authorizer(self._authorize)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its plain tables."""
        return tuple(self._columns)

    def check_table(self, table: str, columns: Sequence[str]) -> bool:
        """Return whether it has a table.

        Raises:
            Invalid: if it is no plain table with these columns.
        """
        if kind := self._others.get(table):
            raise Invalid(
                f"{self._path.name}: {table} is {kind}, and not a table.",
                hint="Views and virtual tables are not read, because they run code of the file.",
            )
        if table not in self._columns:
            return False
        missing = [name for name in columns if name not in self._columns[table]]
        if missing:
            raise Invalid(f"{self._path.name}: {table} has no column {missing[0]}.")
        return True

    def has_column(self, table: str, column: str) -> bool:
        """Return whether a table has a column that is stored."""
        return column in self._columns.get(table, ())

    def count(self, table: str) -> int:
        """Return the number of rows of a table.

        Raises:
            Invalid: if there are too many.
        """
        query = f"SELECT count(*) FROM (SELECT 1 FROM {_quote(table)} LIMIT ?)"  # noqa: S608 - quoted
        with self._reading():
            number = int(self._connection.execute(query, (MAX_IMPORT_ROWS + 1,)).fetchone()[0])
        if number > MAX_IMPORT_ROWS:
            raise Invalid(
                f"{self._path.name}: {table} has more than {MAX_IMPORT_ROWS:,} rows.",
                hint="An import takes at most that number: delete old ones from a copy.",
            )
        return number

    def read(self, table: str, columns: Sequence[str], order: str) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows of a table in the order of a column."""
        selected = ", ".join(
            f"CASE WHEN typeof({name}) IN ('text', 'blob')"
            f" AND length(CAST({name} AS BLOB)) > {MAX_IMPORT_TEXT_BYTES}"
            f" THEN NULL ELSE {name} END, typeof({name})"
            for name in map(_quote, columns)
        )
        query = f"SELECT {selected} FROM {_quote(table)} ORDER BY {_quote(order)} LIMIT ?"  # noqa: S608 - quoted
        with self._reading():
            cursor = self._connection.execute(query, (MAX_IMPORT_ROWS,))
        while True:
            with self._reading():
                row = cursor.fetchone()
            if row is None:
                return
            yield tuple(
                Cell(value, str(type_, "ascii"))
                for value, type_ in zip(row[::2], row[1::2], strict=True)
            )

    def _read_columns(self, table: str) -> tuple[str, ...]:
        found = self._connection.execute(f"PRAGMA table_xinfo({_quote(table)})").fetchall()
        return tuple(str(row[1], "utf-8", "replace") for row in found if row[6] not in _GENERATED)

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        """Allow reads of plain tables, and the functions that our own queries call."""
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and first in self._columns:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and second in _ALLOWED_FUNCTIONS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Make errors of SQLite refusals; also that it takes too long.

        The time counts from here on: what the caller does between two rows, such as waiting for
        the world to store them, does not count.
        """
        self._end = time.monotonic() + IMPORT_READ_SECONDS
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise Invalid(
                    f"{self._path.name}: the next row did not come within"
                    f" {IMPORT_READ_SECONDS:.0f} s.",
                    hint="The disk may be busy, or the file made so that a query never ends. Run"
                    " this command again: what was imported before is known.",
                ) from None
            raise Invalid(
                f"{self._path.name} cannot be read: {shorten_text(str(error))}.",
                hint="The file is damaged, or no database of SQLite. Nothing of it was imported"
                " that a dry run has not shown.",
            ) from None


@contextlib.contextmanager
def open_sqlite(path: Path) -> Iterator[SqliteSource]:
    """Open a database without changing it or its folder.

    Raises:
        Invalid: if it is too large, damaged, or written to while it is read.
        OSError: if it cannot be read.
    """
    named, path = path, Path(os.path.realpath(path))
    before = _describe_files(path)
    sizes = sum(size for _, size, _ in before)
    if sizes > MAX_IMPORT_FILE_BYTES:
        raise Invalid(
            f"{path.name} has {sizes // MIB} MiB.",
            hint=f"An import takes at most {MAX_IMPORT_FILE_BYTES // MIB} MiB.",
        )
    with contextlib.ExitStack() as stack:
        if len(before) > 1:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sshwarma-")))
            for name, _, _ in before:
                shutil.copyfile(path.with_name(name), folder / name)
            connection = _connect(folder / before[0][0], is_copy=True)
        else:
            connection = _connect(path, is_copy=False)
        stack.callback(connection.close)
        yield SqliteSource(named, connection)
        if _describe_files(path) != before:
            raise Invalid(
                f"{path.name} was written to while it was read.",
                hint="Stop the program that uses it, and run this command again.",
            )


def _check_no_journal(path: Path) -> None:
    """Raise Invalid if a database has a journal that SQLite would roll back.

    It would do so in a copy, too, and would delete a file that such a journal names, anywhere.
    """
    journal = path.with_name(path.name + JOURNAL_ENDING)
    if not journal.is_file():
        return
    with journal.open("rb") as file:
        is_hot = file.read(len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC
    if is_hot:
        raise Invalid(
            f"{path.name} has a journal beside it: the program that used it was cut off.",
            hint="Open it once with that program, or with sqlite3, and run this command again.",
        )


def _describe_files(path: Path) -> list[tuple[str, int, int]]:
    """Return name, size and time of a database and of the logs beside it."""
    _check_no_journal(path)
    found = [(path.name, path.stat().st_size, path.stat().st_mtime_ns)]
    for ending in LOG_ENDINGS:
        log = path.with_name(path.name + ending)
        if log.is_file() and log.stat().st_size:
            found.append((path.name + ending, log.stat().st_size, log.stat().st_mtime_ns))
    return found


def _connect(path: Path, *, is_copy: bool) -> sqlite3.Connection:
    """Open a file; into a copy, SQLite writes what is in the log beside it."""
    connection = (
        sqlite3.connect(path, isolation_level=None)
        if is_copy
        else connect_read_only(path, is_immutable=True, isolation_level=None)
    )
    connection.text_factory = bytes
    try:
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "query_only=ON"):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error as error:
        connection.close()
        raise Invalid(f"{path.name} cannot be read: {shorten_text(str(error))}.") from None
    return connection


def _quote(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
