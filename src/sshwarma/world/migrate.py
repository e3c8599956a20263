"""Migration of a database file to the schema of this program.

Alembic is imported only to migrate an older file: a server whose database is new or up to date does
without its 10 MiB. A new file gets the schema that all migrations together make, `newest.sql`.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DatabaseError

from sshwarma.common.reported_error import ReportedError
from sshwarma.common.units import KIB
from sshwarma.world.resources import resource_dir
from sshwarma.world.sqlite_engine import create_sqlite_engine

_START_BYTES: Final = 128 * KIB
"""Bytes that SQLite needs to open a database with a log: the index of the log is 32 KiB."""


class SchemaError(ReportedError):
    """A database that this program cannot use as it is."""


class UnknownSchemaError(SchemaError):
    """A database at a schema revision that this program does not know."""


class OutdatedSchemaError(SchemaError):
    """A database at an older schema revision; only an upgrade may change that."""


class DamagedDatabaseError(SchemaError):
    """A file that is not a database, or is damaged."""


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
    row = database.execute("SELECT version_num FROM alembic_version").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("it does not name the version of its schema")
    return str(row[0])


def prepare_database(path: Path) -> None:
    """Create a database with the newest schema, or check that of an existing one.

    Raises:
        SchemaError: if the file is damaged, or its schema is not the newest.
    """
    if not path.exists():
        migrate_database(path)
        return
    revision = read_schema(path)
    if revision != newest_revision():
        raise OutdatedSchemaError(
            f"{path} is at schema {revision}, and this version needs {newest_revision()}."
            " Upgrade it, which keeps a copy: sshwarma migrate"
            f" --data-dir {shlex.quote(str(path.parent))}"
        )


def read_schema(path: Path) -> str:
    """Return the schema of a database file that this program can use or upgrade.

    Raises:
        DamagedDatabaseError: if it is not a database of this program.
        UnknownSchemaError: if the revision is newer than this program.
    """
    if path.is_dir():
        raise DamagedDatabaseError(f"{path} is a directory, and must be a database.")
    if path.stat().st_size == 0:
        raise DamagedDatabaseError(
            f"{path} is empty. If a first start was interrupted, delete it; otherwise"
            f" restore a backup: {restore_command(path)}"
        )
    engine = create_sqlite_engine(path, read_only=True)
    try:
        with engine.connect() as connection:
            revision = read_revision(connection)
    except DatabaseError as error:
        raise damage_error(path, error) from error
    finally:
        engine.dispose()
    if revision is None:
        raise DamagedDatabaseError(f"{path} is not a world of sshwarma.")
    check_known(path, revision)
    return revision


def check_known(path: Path, revision: str) -> None:
    """Check that this program knows a database's revision.

    Raises:
        UnknownSchemaError: with the ways back.
    """
    if revision in known_revisions():
        return
    raise UnknownSchemaError(
        f"{path} is at schema {revision}, and this version knows {newest_revision()}:"
        f" a newer sshwarma has used it. Start that version, or {describe_way_back(path, revision)}"
    )


def describe_way_back(path: Path, revision: str) -> str:
    """Return how this version gets a world back that a newer one has migrated.

    Args:
        path: the database.
        revision: its schema, which this version does not know.
    """
    copies = [path.with_name(f"world-before-{revision}.db")]
    copies += path.parent.glob(f"world-before-{revision}-*.db")  # of later upgrades, to -2 and on
    kept = [copy for copy in copies if copy.exists()]
    if not kept:
        return "restore a backup that this version made"
    copy = max(kept, key=lambda copy: (copy.stat().st_mtime_ns, len(copy.name), copy.name))
    return (
        "go back to the copy that it kept, without what has changed since:"
        f" sshwarma restore {shlex.quote(str(copy))} --force"
        f" --data-dir {shlex.quote(str(path.parent))}"
    )


def damage_error(path: Path, error: DatabaseError) -> DamagedDatabaseError:
    """Describe what SQLite says of a file that cannot be used."""
    return sqlite_error(path, error.orig)


def sqlite_error(path: Path, error: BaseException | None) -> DamagedDatabaseError:
    """Describe what SQLite itself says of a file that cannot be used."""
    if isinstance(error, sqlite3.OperationalError):  # no permission, a lock, a full disk
        reason = str(error).rstrip(".")
        code = getattr(error, "sqlite_errorname", "")
        if code == "SQLITE_FULL" or code.startswith("SQLITE_IOERR"):
            reason = _explain_disk(path, reason)
        return DamagedDatabaseError(f"{path} cannot be used: {reason}.")
    return DamagedDatabaseError(describe_damage(path, error))


def _explain_disk(path: Path, reason: str) -> str:
    """Return what is wrong with a disk: SQLite says "disk I/O error" of a full one."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(path.parent).free < _START_BYTES:
            return (
                "the disk is full, and SQLite makes files beside the database. Make room on it;"
                " nothing was changed"
            )
    return f"{reason}. Make room on its disk; if there is room, check the disk"


def describe_damage(path: Path, found: BaseException | str | None) -> str:
    """Return the sentence about a damaged database, with the remedy."""
    reason = " ".join(str(found).split()).removeprefix("*** in database main *** ").rstrip(".")
    return f"{path} is damaged: {reason}. Restore a backup: {restore_command(path)}"


def restore_command(path: Path) -> str:
    """Return the command that replaces a database with a backup."""
    directory = shlex.quote(str(path.parent))
    return f"sshwarma restore FILE --force --data-dir {directory}"


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
            if old_revision is not None:
                check_known(path, old_revision)
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


def run_migrations(connection: Connection, revision: str = "head") -> None:
    """Run the migrations up to a revision, in the transaction that was begun."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_dir()).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _upgrade(connection: Connection, revision: str) -> None:
    """Run the migrations up to a revision in one transaction."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    try:
        run_migrations(connection, revision)
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")
