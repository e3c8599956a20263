"""Migration of a database file to the schema of this program."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

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
    head = ScriptDirectory(str(migrations_dir())).get_current_head()
    if head is None:
        raise RuntimeError(f"no migrations in {migrations_dir()}")
    return head


def known_revisions() -> set[str]:
    """Every revision this program can migrate from."""
    return {script.revision for script in ScriptDirectory(str(migrations_dir())).walk_revisions()}


def read_revision(connection: Connection) -> str | None:
    """Return the revision of a database; None if it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def migrate_database(path: Path, revision: str = "head") -> tuple[str | None, str]:
    """Migrate the file to a revision, in one transaction. Returns the revisions before and after.

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
            return old_revision, read_revision(connection) or ""
    finally:
        engine.dispose()
