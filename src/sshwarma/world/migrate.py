"""Migration of a database file to the schema of this program.

Alembic is imported only to migrate an older file: a server whose database is new or up to date does
without its 10 MiB. A new file gets the schema that all migrations together make, `newest.sql`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, inspect

from sshwarma.world.resources import resource_dir
from sshwarma.world.store import create_sqlite_engine


class UnknownSchemaError(Exception):
    """A database at a schema revision that this program does not know."""


def migrations_dir() -> Path:
    """Return the directory of the numbered migrations."""
    return resource_dir("migrations")


@cache
def newest_revision() -> str:
    """Return the revision this program needs."""
    revisions = known_revisions()
    if not revisions:
        raise RuntimeError(f"no migrations in {migrations_dir()}")
    return max(revisions)


def known_revisions() -> set[str]:
    """Every revision this program can migrate from: the numbers in the file names."""
    files = (migrations_dir() / "versions").glob("[0-9]*.py")
    return {file.name.partition("_")[0] for file in files}


def read_revision(connection: Connection) -> str | None:
    """Return the revision of a database; None if it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
    return None if row is None else str(row[0])


def read_file_revision(database: sqlite3.Connection) -> str:
    """Return the revision of a database file that is opened without SQLAlchemy.

    Raises:
        sqlite3.DatabaseError: if it is not a database of this program, or is damaged.
    """
    return str(database.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def migrate_database(path: Path, revision: str = "head") -> tuple[str | None, str]:
    """Migrate the file to a revision, in one transaction.

    Returns the revisions before and after.

    Raises:
        UnknownSchemaError: if the file's revision is newer than this program.
    """
    engine = create_sqlite_engine(path)
    try:
        with engine.connect() as connection:
            old_revision = read_revision(connection)
            if revision == "head" and old_revision == newest_revision():
                return old_revision, old_revision
            if old_revision is not None and old_revision not in known_revisions():
                raise UnknownSchemaError(
                    f"{path} is at schema {old_revision}, which this version does not know:"
                    " a newer sshwarma has used it."
                )
            connection.rollback()  # of the reading transaction, before one that writes
            if revision == "head" and old_revision is None:
                _create(connection)
            else:
                _upgrade(connection, revision)
            return old_revision, read_revision(connection) or ""
    finally:
        engine.dispose()


def _create(connection: Connection) -> None:
    """Create the newest schema in an empty database, in one transaction."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    try:
        if read_revision(connection) is None:  # no other program was faster
            for statement in split_statements(newest_schema_file().read_text(encoding="utf-8")):
                connection.exec_driver_sql(statement)
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")


def newest_schema_file() -> Path:
    """Return the file with the statements that create the newest schema.

    `make docs` writes it.
    """
    return migrations_dir() / "newest.sql"


def split_statements(script: str) -> Iterator[str]:
    """Yield the statements of an SQL script, whose triggers may contain semicolons."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""


def _upgrade(connection: Connection, revision: str) -> None:
    """Run the migrations up to a revision in one transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    config.attributes["connection"] = connection
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    try:
        command.upgrade(config, revision)
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")
