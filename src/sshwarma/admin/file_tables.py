"""Tables of a world in a file, read and written in bulk by a move."""

# ruff: noqa: S608 - names in a statement are those of the schema, which the file was compared with

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sshwarma.common.read_only_database import connect_read_only, opened_read_only
from sshwarma.world.copy_lines import CopiedTable
from sshwarma.world.data_check import find_invalid_data
from sshwarma.world.migrate import DamagedDatabaseError, describe_damage, migrate_database
from sshwarma.world.schema_check import ForeignSchemaError, check_newest_objects

BATCH_ROWS: Final = 2_000
"""Rows that are in memory at a time."""

COUNT_GAPS: Final = (
    "SELECT count(*) FROM (SELECT room_id FROM rows GROUP BY room_id"
    " HAVING count(*) <> max(seq)) AS rooms"
)
"""Counts the rooms whose numbers of rows have gaps, in every database."""


@dataclass(slots=True)
class TableFigures:
    """The number of rows of a table, and the digest of its lines in order."""

    rows: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)

    @property
    def sha256(self) -> str:
        """The digest in hex."""
        return str(self._digest.hexdigest())

    def add(self, table: CopiedTable, rows: Sequence[Sequence[Any]], lines: Sequence[str]) -> None:
        """Add rows, whose lines for `COPY` are known."""
        if table.floats:
            lines = [table.encode_for_digest(row) for row in rows]
        self.rows += len(rows)
        self._digest.update(join_lines(lines))


def join_lines(lines: Sequence[str]) -> bytes:
    """Return lines as they are sent."""
    return ("\n".join(lines) + "\n").encode()


class FileTables:
    """A database file whose tables are read, or written."""

    def __init__(self, opened: sqlite3.Connection) -> None:
        self._opened = opened

    def close(self) -> None:
        """Close the file; what was written and not kept is lost."""
        self._opened.close()

    def count(self, table: CopiedTable) -> int:
        """Return the number of rows of a table."""
        return int(self._ask(f'SELECT count(*) FROM "{table.name}"'))

    def count_gaps(self) -> int:
        """Return the number of rooms whose numbers of rows have gaps."""
        return int(self._ask(COUNT_GAPS))

    def read_rows(self, table: CopiedTable) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a table in order, some at a time."""
        columns = ", ".join(f'"{name}"' for name in table.columns)
        order = ", ".join(f'"{name}"' for name in table.order)
        cursor = self._opened.execute(f'SELECT {columns} FROM "{table.name}" ORDER BY {order}')
        while batch := cursor.fetchmany(BATCH_ROWS):
            yield batch

    def measure(self, table: CopiedTable) -> TableFigures:
        """Return the figures of a table."""
        figures = TableFigures()
        for batch in self.read_rows(table):
            lines = [] if table.floats else [table.encode(row) for row in batch]
            figures.add(table, batch, lines)
        return figures

    def read_sequence(self, table: CopiedTable) -> int:
        """Return the last number that a table gave; 0 if the file does not keep it."""
        query = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
        return int(self._ask(query, (table.name,)))

    def write_rows(self, table: CopiedTable, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows of a table."""
        columns = ", ".join(f'"{name}"' for name in table.columns)
        marks = ", ".join("?" * len(table.columns))
        self._opened.executemany(
            f'INSERT INTO "{table.name}" ({columns}) VALUES ({marks})', map(table.decode, rows)
        )

    def set_sequence(self, table: CopiedTable, last: int) -> None:
        """Let the numbers of a table go on above `last`, if the file keeps them."""
        query = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?"
        if "AUTOINCREMENT" not in str(self._ask(query, (table.name,))) or not last:
            return
        last = max(last, self.read_sequence(table))
        self._opened.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
        self._opened.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table.name, last))

    def build_index(self) -> None:
        """Build the index for searching."""
        self._opened.execute("INSERT INTO rows_fts (rows_fts) VALUES ('rebuild')")
        self._opened.execute(
            "UPDATE rows_indexed SET last_n = (SELECT coalesce(max(n), 0) FROM rows)"
        )

    def keep(self) -> None:
        """Store what was written, without a log.

        Raises:
            DamagedDatabaseError: if a row refers to one that is not there.
        """
        if (found := self._opened.execute("PRAGMA foreign_key_check").fetchone()) is not None:
            raise DamagedDatabaseError(f"A row of {found[0]} refers to a row that is not there.")
        self._opened.execute("COMMIT")
        self._opened.execute("PRAGMA journal_mode = DELETE")

    def _ask(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self._opened.execute(query, values).fetchone()[0]


def check_source_file(database: Path) -> None:
    """Check that a file at the newest schema is undamaged, also in its values.

    Raises:
        DamagedDatabaseError: with what is damaged.
    """
    try:
        with opened_read_only(database) as opened:
            check_newest_objects(opened)
            verdict = str(opened.execute("PRAGMA quick_check(1)").fetchone()[0])
            found = find_invalid_data(opened) if verdict == "ok" else verdict
    except (sqlite3.DatabaseError, ForeignSchemaError) as error:
        raise DamagedDatabaseError(describe_damage(database, error)) from error
    if found is not None:
        raise DamagedDatabaseError(describe_damage(database, found))


def open_old_file(database: Path) -> FileTables:
    """Open a world for reading, as it is at one moment."""
    opened = connect_read_only(database, isolation_level=None)
    opened.execute("BEGIN")
    return FileTables(opened)


def open_new_file(database: Path) -> FileTables:
    """Make a database of the newest schema, open for writing in one transaction.

    It has no name that anybody uses: until it is complete, nothing waits for the disk.
    """
    migrate_database(database)
    opened = sqlite3.connect(database, isolation_level=None)
    for setting in ("journal_mode = MEMORY", "synchronous = OFF", "foreign_keys = OFF"):
        opened.execute(f"PRAGMA {setting}")
    opened.execute("BEGIN IMMEDIATE")
    return FileTables(opened)
