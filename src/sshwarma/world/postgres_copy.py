"""Tables of a world on PostgreSQL, written and read in bulk by commands.

It imports the driver, because neither `COPY` nor its errors pass through SQLAlchemy.
"""

# ruff: noqa: S608 - names in a statement are those of the schema

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import errors
from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from sshwarma.world.copy_lines import CopiedTable
from sshwarma.world.migrate import SchemaError, read_revision
from sshwarma.world.postgres_dialect import CONNECT_TIMEOUT_SECONDS
from sshwarma.world.postgres_errors import find_postgres_error
from sshwarma.world.postgres_nodes import DEAD_SECONDS, WORLD_LOCK
from sshwarma.world.postgres_schema import (
    SCHEMA_LOCK,
    check_empty,
    check_known_revision,
    check_revision,
    check_settings,
)

BATCH_ROWS: Final = 2_000
"""Rows that one block of `COPY` or of a cursor has."""

LOCK_TIMEOUT_MS: Final = 5_000
"""Milliseconds that a command waits for others."""

INDEX_MEMORY: Final = "128MB"
"""Memory in which the server builds the index for searching."""

CHECK_CHANNEL: Final = "sshwarma_doctor"

NOTIFY_SECONDS: Final = 2.0
"""Seconds that a notification to this connection itself may take."""

_SELECT_LIVE: Final = (
    "SELECT name FROM nodes WHERE state = 'up'"
    " AND beat_at >= clock_timestamp() - make_interval(secs => %s) LIMIT 1"
)

_COPY_PLACE: Final = re.compile(r"COPY (\w+), line (\d+)(?:, column (\w+))?")


class BulkConnection:
    """A connection of a command that reads or writes whole tables.

    It has no limits of time.

    Attributes:
        place: of the database, without a password.
        conn: SQLAlchemy's connection, which begins no transaction by itself.
        driver: psycopg's, below it.
    """

    def __init__(self, conn: Connection, place: str) -> None:
        driver = conn.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)  # noqa: S101 - the engine made it
        self.place = place
        self.conn = conn
        self.driver: psycopg.Connection[Any] = driver

    def take_locks(self) -> None:
        """Keep servers and other commands away until the connection ends.

        Raises:
            SchemaError: if a server uses the database.
        """
        self.conn.exec_driver_sql(f"SET lock_timeout = {LOCK_TIMEOUT_MS}")
        for key in (SCHEMA_LOCK, WORLD_LOCK):  # no server begins, and none writes
            self.conn.exec_driver_sql(f"SELECT pg_advisory_lock({key})")
        self.conn.exec_driver_sql("SET lock_timeout = 0")
        if self.ask("SELECT to_regclass('nodes') IS NULL"):
            return
        found = self.conn.exec_driver_sql(_SELECT_LIVE, (DEAD_SECONDS,)).first()
        if found is not None:
            raise SchemaError(
                f"Another server uses the world in {self.place}: {found[0]}. Stop it first. One"
                f" that was killed is taken for dead after {DEAD_SECONDS} s."
            )

    @contextmanager
    def transaction(self, kind: str = "") -> Iterator[None]:
        """Run what follows in a transaction, which an exception takes back."""
        self.conn.exec_driver_sql(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            if not self.driver.closed:
                self.conn.exec_driver_sql("ROLLBACK")
            raise
        self.conn.exec_driver_sql("COMMIT")

    def ask(self, query: str, values: Sequence[Any] = ()) -> Any:
        """Return the one value that a query has."""
        return self.conn.exec_driver_sql(query, tuple(values)).scalar_one()

    def check_settings(self) -> None:
        """Check that the database can hold a world.

        Raises:
            SchemaError: if its version, encoding or order of texts is another.
        """
        check_settings(self.conn, self.place)

    def read_revision(self) -> str | None:
        """Return the revision of the schema; None if there is no world."""
        return read_revision(self.conn)

    def is_direct(self) -> bool:
        """Return whether nothing lends this connection to others between two statements.

        A pooler gives clients a number of its own, and keeps notifications to itself.
        """
        if self.driver.info.backend_pid != self.ask("SELECT pg_backend_pid()"):
            return False
        self.conn.exec_driver_sql(f"LISTEN {CHECK_CHANNEL}")
        self.conn.exec_driver_sql(f"NOTIFY {CHECK_CHANNEL}")
        heard = next(self.driver.notifies(timeout=NOTIFY_SECONDS, stop_after=1), None)
        self.conn.exec_driver_sql(f"UNLISTEN {CHECK_CHANNEL}")
        return heard is not None

    def check_known_world(self) -> str:
        """Return the revision of a world that this program can use or upgrade.

        Raises:
            SchemaError: if the database has no such world.
        """
        check_settings(self.conn, self.place)
        return check_known_revision(self.conn, self.place)

    def check_world(self) -> None:
        """Check that the database has a world of the newest schema, which was not moved.

        Raises:
            SchemaError: if not, with what to do.
        """
        check_settings(self.conn, self.place)
        check_revision(self.conn, self.place)

    def check_empty(self) -> None:
        """Check that the database can hold a world, and has no tables.

        Raises:
            SchemaError: if not, with what to do.
        """
        check_settings(self.conn, self.place)
        if self.read_revision() is not None:
            raise SchemaError(
                f"{self.place} already contains a world, which is not replaced. Make an empty"
                " database for it, and name that: createdb --encoding=UTF8 --locale=C.UTF-8"
                " --template=template0 NAME"
            )
        check_empty(self.conn, self.place)

    def count_world(self) -> dict[str, Any]:
        """Return the schema of a world, and how many things and rows it has."""
        return {
            "schema": self.ask("SELECT version_num FROM alembic_version"),
            "things": self.ask("SELECT count(*) FROM things"),
            "rows": self.ask("SELECT count(*) FROM rows"),
        }

    def drop_world(self) -> None:
        """Drop all tables, views and functions, which a killed move has left."""
        for kind, relkind in (("VIEW", "v"), ("TABLE", "r")):
            query = (
                "SELECT oid::regclass::text FROM pg_class"
                " WHERE relnamespace = 'public'::regnamespace AND relkind = %s"
            )
            for (name,) in self.conn.exec_driver_sql(query, (relkind,)).all():
                self.conn.exec_driver_sql(f"DROP {kind} IF EXISTS {name} CASCADE")
        query = (
            "SELECT oid::regprocedure::text FROM pg_proc"
            " WHERE pronamespace = 'public'::regnamespace"
            " AND proowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)"
        )
        for (name,) in self.conn.exec_driver_sql(query).all():
            self.conn.exec_driver_sql(f"DROP ROUTINE IF EXISTS {name} CASCADE")

    def write_lines(self, table: CopiedTable, batches: Iterable[bytes]) -> None:
        """Write the lines of a table."""
        columns = ", ".join(f'"{name}"' for name in table.columns)
        statement = f'COPY "{table.name}" ({columns}) FROM STDIN'
        with self.driver.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for batch in batches:
                copy.write(batch)

    def digest_table(self, table: CopiedTable) -> tuple[int, str]:
        """Return the number of rows of a table, and a digest of its lines in order."""
        columns = ", ".join(
            f"encode(float8send(\"{name}\"), 'hex')" if name in table.floats else f'"{name}"'
            for name in table.columns
        )
        statement = f'COPY (SELECT {columns} FROM "{table.name}" {_order(table)}) TO STDOUT'
        count, digest = 0, hashlib.sha256()
        with self.driver.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for block in copy:
                digest.update(block)
            count = max(cursor.rowcount, 0)
        return count, digest.hexdigest()

    def read_rows(self, table: CopiedTable) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a table in order, some at a time, in an open transaction."""
        columns = ", ".join(f'"{name}"' for name in table.columns)
        query = f'SELECT {columns} FROM "{table.name}" {_order(table)}'
        with self.driver.cursor(f"rows of {table.name}", binary=True) as cursor:
            cursor.execute(query.encode())
            while batch := cursor.fetchmany(BATCH_ROWS):
                yield batch

    def read_sequence(self, table: CopiedTable) -> tuple[str, int] | None:
        """Return the sequence of a table, if it has one, and the last number given."""
        if len(table.order) != 1:
            return None
        query = "SELECT pg_get_serial_sequence(%s, %s)"
        name = self.ask(query, (f'"{table.name}"', table.order[0]))
        if name is None:
            return None
        last = f"SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM {name}"
        return str(name), int(self.ask(last))

    def set_sequence(self, table: CopiedTable, last: int) -> None:
        """Let the numbers of a table go on above its rows, and above `last`."""
        if (found := self.read_sequence(table)) is None:
            return
        query = f'SELECT coalesce(max("{table.order[0]}"), 0) FROM "{table.name}"'
        highest = max(last, int(self.ask(query)))
        self.ask("SELECT setval(%s, %s, %s)", (found[0], max(highest, 1), highest > 0))


def _order(table: CopiedTable) -> str:
    """Return the order of a table's rows, which is that of bytes in every database."""
    keys = (f'"{name}"' + (' COLLATE "C"' if name in table.texts else "") for name in table.order)
    return f"ORDER BY {', '.join(keys)}"


@contextmanager
def opened_in_bulk(address: str) -> Iterator[BulkConnection]:
    """Connect to a database as a command.

    Raises:
        SchemaError: for every error of PostgreSQL, in words without what people said.
    """
    url = make_url(address).set(drivername="postgresql+psycopg")
    place = url.set(drivername="postgresql").render_as_string()
    engine = create_engine(
        url,
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        hide_parameters=True,
        connect_args={
            "application_name": "sshwarma/command",
            "connect_timeout": CONNECT_TIMEOUT_SECONDS,
            "options": "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
            f" -c maintenance_work_mem={INDEX_MEMORY}",
            "keepalives_idle": 5,
            "keepalives_interval": 5,
            "keepalives_count": 3,
        },
    )
    try:
        with engine.connect() as conn:
            yield BulkConnection(conn, place)
    except (psycopg.Error, DBAPIError) as error:
        raise SchemaError(f"{place} cannot be used: {describe_error(error)}.") from error
    finally:
        engine.dispose()


def describe_error(error: BaseException) -> str:
    """Return what PostgreSQL says, without the values of rows."""
    found = find_postgres_error(error)
    if found is None:
        return type(error).__name__
    if isinstance(found, errors.LockNotAvailable):
        return "a server or another command is using it"
    if found.diag.message_primary is None:  # of the driver, or of the network
        return " ".join(str(found).split()).rstrip(".")
    at = _COPY_PLACE.search(found.diag.context or "")
    where = ""
    if at is not None:
        column = f", column {at[3]}" if at[3] else ""
        where = f", in row {at[2]} of {at[1]}{column}"
    elif found.diag.constraint_name:
        where = f" ({found.diag.constraint_name})"
    return f"{found.diag.message_primary}{where}"
