"""The schema of a world on a PostgreSQL server.

A new database gets the tables of `schema` and what `objects.postgres.sql` adds to them. No world
was on PostgreSQL before migration 0026, so that the earlier ones are SQLite's alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.exc import DBAPIError

from sshwarma.world.migrate import (
    OutdatedSchemaError,
    SchemaError,
    UnknownSchemaError,
    known_revisions,
    migrations_dir,
    newest_revision,
    read_revision,
)
from sshwarma.world.move_mark import check_table_not_moved
from sshwarma.world.postgres_connection import driver_of
from sshwarma.world.postgres_errors import find_postgres_error
from sshwarma.world.postgres_report_schema import create_report_schema, ensure_report_role
from sshwarma.world.schema import metadata

MIN_VERSION: Final = 14
"""The oldest version of PostgreSQL that has what a world needs."""

SCHEMA_LOCK: Final = 0x73737761736368
"""Key of the advisory lock of a process that creates a schema."""

_SELECT_SETTINGS: Final = (
    "SELECT current_setting('server_version_num')::int / 10000, pg_encoding_to_char(encoding),"
    " datcollate, datctype, datname FROM pg_database WHERE datname = current_database()"
)


def objects_file() -> Path:
    """Return the file with what PostgreSQL has besides the tables."""
    return migrations_dir() / "objects.postgres.sql"


def prepare_postgres(engine: Engine, place: str) -> None:
    """Create the newest schema in an empty database, or check that of a world.

    Args:
        engine: connects with the right to create tables, if the database is empty.
        place: of the database, for errors.

    Raises:
        SchemaError: if the server cannot be reached, or its database cannot be used as it is.
    """
    try:
        with engine.connect() as conn, driver_of(conn).transaction():
            _prepare(conn, place)
    except (DBAPIError, psycopg.Error) as error:
        found = find_postgres_error(error)
        reason = " ".join(str(found or error).split())
        raise SchemaError(f"{place} cannot be used: {reason}") from error


def _prepare(conn: Connection, place: str) -> None:
    check_settings(conn, place)
    conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")
    if read_revision(conn) is None:
        _create(conn, place)
    else:
        check_revision(conn, place)
    ensure_report_role(driver_of(conn))


def check_revision(conn: Connection, place: str) -> None:
    """Check that a database has a world of the newest schema, which was not moved.

    Raises:
        SchemaError: if not, with what to do.
    """
    revision = check_known_revision(conn, place)
    if revision != newest_revision():
        raise OutdatedSchemaError(
            f"{place} is at schema {revision}, and this version needs {newest_revision()}."
            " Upgrade it: sshwarma migrate"
        )


def check_known_revision(conn: Connection, place: str) -> str:
    """Return the revision of a world that this program knows, and that was not moved.

    Raises:
        SchemaError: if the database has none.
    """
    revision = read_revision(conn)
    if revision is None:
        raise SchemaError(f"{place} does not contain a world.")
    if revision not in known_revisions():
        raise UnknownSchemaError(
            f"{place} is at schema {revision}, and this version knows {newest_revision()}:"
            " a newer sshwarma has used it. Start that version."
        )
    check_table_not_moved(conn, place)
    return revision


def check_settings(conn: Connection, place: str) -> None:
    """Check that a database can hold a world.

    Raises:
        SchemaError: if its version is too old, or its encoding or order of texts is another.
    """
    version, encoding, collation, types, name = conn.exec_driver_sql(_SELECT_SETTINGS).one()
    if version < MIN_VERSION:
        raise SchemaError(
            f"{place} is on PostgreSQL {version}, and a world needs {MIN_VERSION} or newer."
        )
    is_utf8 = types.upper().replace("-", "").endswith("UTF8")
    if encoding != "UTF8" or collation not in ("C", "C.UTF-8", "C.utf8", "POSIX") or not is_utf8:
        raise SchemaError(
            f"{place} has the encoding {encoding}, the collation {collation} and the character"
            f" types {types}. A world needs UTF-8 and the order of bytes: createdb"
            f" --encoding=UTF8 --locale=C.UTF-8 --template=template0 {name}"
        )


def _create(conn: Connection, place: str) -> None:
    """Create the newest schema in an empty database."""
    check_empty(conn, place)
    create_tables(conn)
    create_objects(conn)


def check_empty(conn: Connection, place: str) -> None:
    """Check that a database has no tables.

    Raises:
        SchemaError: with one that it has.
    """
    others = inspect(conn).get_table_names()
    if others:
        raise SchemaError(
            f"{place} is not a world of sshwarma: it has the table {others[0]}. A new world needs"
            " an empty database."
        )


def create_tables(conn: Connection) -> None:
    """Create the tables of the newest schema, and store its revision."""
    metadata.create_all(conn)
    conn.exec_driver_sql(
        "CREATE TABLE alembic_version (version_num text CONSTRAINT alembic_version_pkc PRIMARY KEY)"
    )
    conn.exec_driver_sql("INSERT INTO alembic_version VALUES (%s)", (newest_revision(),))


def create_objects(conn: Connection) -> None:
    """Create what the newest schema has besides the tables: views, functions."""
    driver = driver_of(conn)
    driver.execute(objects_file().read_bytes(), prepare=False)
    create_report_schema(driver, objects_file().read_text("utf-8"))
