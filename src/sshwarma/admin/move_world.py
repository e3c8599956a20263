"""`sshwarma migrate-to`: a world moves from its file to PostgreSQL, or back.

The copy is made and compared in one transaction, or in a file without a name, so that a move which
is killed leaves nothing but the world where it was. Then three steps follow, each of which can be
the last one of a killed command: the copy gets its place and is marked as arriving, the old world
is marked as moved, the mark of the copy goes. The same command finishes or repeats them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sshwarma.admin.data_dir_lock import lock_data_dir
from sshwarma.admin.data_dir_modes import make_data_dir_private, make_database_private
from sshwarma.admin.database_copy import check_room
from sshwarma.admin.file_tables import (
    COUNT_GAPS,
    FileTables,
    TableFigures,
    check_source_file,
    join_lines,
    open_new_file,
    open_old_file,
)
from sshwarma.admin.recovery import recover_database
from sshwarma.admin.replaced_world import replace_database
from sshwarma.admin.work_directory import make_work_directory
from sshwarma.common.files import store_on_disk
from sshwarma.common.reported_error import ReportedError
from sshwarma.settings import DATABASE_NAME
from sshwarma.world.copy_lines import CopiedTable
from sshwarma.world.databases import DatabaseUrl, check_driver
from sshwarma.world.migrate import prepare_database
from sshwarma.world.move_mark import (
    MoveMark,
    check_not_moved,
    delete_file_mark,
    read_file_mark,
    read_table_mark,
    write_file_mark,
    write_table_mark,
)
from sshwarma.world.schema import metadata

if TYPE_CHECKING:
    from sshwarma.world.postgres_copy import BulkConnection

Report = Callable[[str, int, int], None]
"""Hears the step, how many rows of it are done, and of how many."""


class MoveError(ReportedError):
    """A move that was not made. The world is where it was."""


@dataclass(slots=True)
class MovedWorld:
    """What a move has done.

    Attributes:
        tables: the rows and the digest of each table.
        replaced_nul: values in which a NUL was made visible.
        changed_json: values of metadata that were no JSON, and are kept in a JSON text.
        kept: the older file that was replaced.
        seconds: of the whole move.
        is_finished_only: whether an earlier move had copied everything.
    """

    source: str
    target: str
    tables: dict[str, TableFigures] = field(default_factory=dict)
    replaced_nul: int = 0
    changed_json: int = 0
    kept: Path | None = None
    seconds: float = 0.0
    is_finished_only: bool = False

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(figures.rows for figures in self.tables.values())

    def describe(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "from": self.source,
            "to": self.target,
            "rows": self.rows,
            "seconds": round(self.seconds, 1),
            "rows_per_second": round(self.rows / self.seconds) if self.seconds else 0,
            "replaced_nul": self.replaced_nul,
            "changed_json": self.changed_json,
            "replaced": str(self.kept) if self.kept is not None else None,
            "finished_only": self.is_finished_only,
            "tables": {
                name: {"rows": figures.rows, "sha256": figures.sha256}
                for name, figures in self.tables.items()
            },
        }


def list_tables() -> list[CopiedTable]:
    """Return the tables of a world; those that others refer to come first."""
    return [CopiedTable(table) for table in metadata.sorted_tables]


def move_to_postgres(database: Path, target: DatabaseUrl, report: Report) -> MovedWorld:
    """Move a world from its file to an empty database on PostgreSQL.

    Raises:
        DataDirInUseError: if a server is running.
        SchemaError: if the file is damaged or not at the newest schema, or the database cannot be
            used.
        MoveError: if the copy differs from the world.
    """
    check_driver()
    from sshwarma.world.postgres_copy import opened_in_bulk

    started = time.monotonic()
    with lock_data_dir(database.parent), opened_in_bulk(target.text) as bulk:
        recover_database(database)
        moved = MovedWorld(str(database), bulk.place)
        bulk.take_locks()
        arriving = MoveMark("arriving", str(database))
        found = read_table_mark(bulk.conn)
        if read_file_mark(database) == MoveMark("moved", bulk.place) and found == arriving:
            moved.is_finished_only = True
        else:
            check_not_moved(database)
            prepare_database(database)
            check_source_file(database)
            with closing(open_old_file(database)) as file, bulk.transaction():
                _make_empty(bulk, is_left=found == arriving)
                _fill_postgres(file, bulk, moved, report)
                _compare(file.count_gaps(), moved, bulk, report)
                write_table_mark(bulk.conn, arriving)
            write_file_mark(database, MoveMark("moved", bulk.place))
        with bulk.transaction():
            write_table_mark(bulk.conn, None)
    moved.seconds = time.monotonic() - started
    return moved


def _make_empty(bulk: BulkConnection, *, is_left: bool) -> None:
    """Check that a database is empty, without what a killed move has left.

    Raises:
        SchemaError: if something else is in it.
    """
    if is_left:
        bulk.drop_world()
    bulk.check_empty()


def _fill_postgres(
    file: FileTables, bulk: BulkConnection, moved: MovedWorld, report: Report
) -> None:
    """Copy a file into an empty database in an open transaction."""
    from sshwarma.world.postgres_schema import create_objects, create_tables

    create_tables(bulk.conn)
    for table in list_tables():
        figures = moved.tables[table.name] = TableFigures()
        bulk.write_lines(table, _make_lines(file, table, figures, report))
        bulk.set_sequence(table, file.read_sequence(table))
        moved.replaced_nul += table.replaced_nul
        moved.changed_json += table.changed_json
    report("the index for searching", 0, 0)
    create_objects(bulk.conn)


def _make_lines(
    file: FileTables, table: CopiedTable, figures: TableFigures, report: Report
) -> Iterator[bytes]:
    """Yield the lines of a table of a file; add them to its figures."""
    total = file.count(table)
    for rows in file.read_rows(table):
        lines = [table.encode(row) for row in rows]
        figures.add(table, rows, lines)
        yield join_lines(lines)
        report(table.name, figures.rows, total)


def _compare(file_gaps: int, moved: MovedWorld, bulk: BulkConnection, report: Report) -> None:
    """Compare the figures of a file with what the database has.

    Raises:
        MoveError: with the first table that differs.
    """
    for table in list_tables():
        figures = moved.tables[table.name]
        report(f"comparison of {table.name}", 0, 0)
        rows, digest = bulk.digest_table(table)
        if (rows, digest) != (figures.rows, figures.sha256):
            raise MoveError(
                f"The copy is not the world: {table.name} has {figures.rows:,} rows with the digest"
                f" {figures.sha256[:12]} in the file, and {rows:,} rows with the digest"
                f" {digest[:12]} on PostgreSQL. The world stays where it was. See to the memory and"
                " the disks of both machines, then run it again."
            )
    gaps = int(bulk.ask(COUNT_GAPS))
    if gaps != file_gaps:
        raise MoveError(
            f"The copy is not the world: the numbers of rows have gaps in {file_gaps} rooms in the"
            f" file, and in {gaps} on PostgreSQL. The world stays where it was."
        )


def move_to_file(source: DatabaseUrl, database: Path, report: Report) -> MovedWorld:
    """Move a world from PostgreSQL into the file of a data directory.

    A file that a move has left there is kept, renamed.

    Raises:
        DataDirInUseError: if a server is running.
        SchemaError: if the database cannot be used.
        FileExistsError: if there is another world in the directory.
        MoveError: if the copy differs from the world.
    """
    check_driver()
    from sshwarma.world.postgres_copy import opened_in_bulk

    started = time.monotonic()
    make_data_dir_private(database.parent)
    with lock_data_dir(database.parent), opened_in_bulk(source.text) as bulk:
        moved = MovedWorld(bulk.place, str(database))
        bulk.take_locks()
        found = read_file_mark(database)
        arriving = MoveMark("arriving", bulk.place)
        if found == arriving and read_table_mark(bulk.conn) == MoveMark("moved", str(database)):
            moved.is_finished_only = True
        else:
            _check_replaceable(database, found, bulk.place)
            bulk.check_world()
            with (
                make_work_directory(database.parent) as work,
                bulk.transaction("ISOLATION LEVEL REPEATABLE READ"),
            ):
                copy = work / DATABASE_NAME
                _fill_file(copy, bulk, moved, report)
                write_file_mark(database, arriving)
                moved.kept = replace_database(copy, database, work).database
                write_table_mark(bulk.conn, MoveMark("moved", str(database)))
            make_database_private(database)
        delete_file_mark(database)
    moved.seconds = time.monotonic() - started
    return moved


def _check_replaceable(database: Path, mark: MoveMark | None, place: str) -> None:
    """Check that no world is lost with the file of a directory.

    Raises:
        FileExistsError: if it has one that was not moved to the database `place`.
    """
    if database.exists() and (mark is None or mark.place != place):
        raise FileExistsError(
            f"{database} already exists, and was not moved to {place}. Move it away, or name"
            " another directory with --data-dir."
        )


def _fill_file(copy: Path, bulk: BulkConnection, moved: MovedWorld, report: Report) -> None:
    """Copy a database in an open transaction into a new file, and compare both."""
    size = int(bulk.ask("SELECT pg_database_size(current_database())"))
    check_room(copy.parent, "The copy of the world", size)
    tables = list_tables()
    with closing(open_new_file(copy)) as file:
        for table in tables:
            total, done = int(bulk.ask(f'SELECT count(*) FROM "{table.name}"')), 0  # noqa: S608
            for rows in bulk.read_rows(table):
                file.write_rows(table, rows)
                done += len(rows)
                report(table.name, done, total)
            sequence = bulk.read_sequence(table)
            file.set_sequence(table, sequence[1] if sequence is not None else 0)
        report("the index for searching", 0, 0)
        file.build_index()
        for table in tables:
            moved.tables[table.name] = file.measure(table)
        _compare(file.count_gaps(), moved, bulk, report)
        file.keep()
    store_on_disk(copy)
