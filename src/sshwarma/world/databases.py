"""Where a world can be: in a file, or on a PostgreSQL server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sshwarma.world.dialect import Dialect
from sshwarma.world.migrate import SchemaError
from sshwarma.world.sqlite_dialect import SqliteDialect


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """The address of a database on a server.

    Written `postgresql://USER:PASSWORD@HOST:PORT/NAME`; its `repr` has no password. `node` is the
    name of the server that uses it, which no other has at the same time.
    """

    text: str = field(repr=False)
    node: str = ""


Location = Path | DatabaseUrl
"""A database: the path of an SQLite file, or the address of one on a server."""


def make_dialect(location: Location) -> Dialect:
    """Return the dialect of a database; nothing connects yet.

    Raises:
        SchemaError: if the driver of PostgreSQL is not installed.
    """
    if isinstance(location, DatabaseUrl):
        check_driver()
        from sshwarma.world.postgres_dialect import PostgresDialect

        return PostgresDialect(location.text, location.node)
    return SqliteDialect(location)


def check_driver() -> None:
    """Check that the driver of PostgreSQL is installed.

    Raises:
        SchemaError: if it is not.
    """
    try:
        import sshwarma.world.postgres_dialect  # noqa: F401
    except ModuleNotFoundError as error:
        raise SchemaError(
            f"A world on PostgreSQL needs {error.name}: pip install 'sshwarma[postgres]'"
        ) from error
