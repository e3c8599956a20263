"""Where the world of a data directory is, and how commands read it there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import SQLAlchemyError

from sshwarma.common.read_only_database import connect_read_only
from sshwarma.common.reported_error import ReportedError
from sshwarma.settings import Settings
from sshwarma.world.databases import DatabaseUrl, make_dialect
from sshwarma.world.migrate import SchemaError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PostgresWorld:
    """A world on PostgreSQL, whose files have their contents in a directory."""

    address: DatabaseUrl
    data_dir: Path

    def __str__(self) -> str:
        return self.address.text


WorldPlace = Path | PostgresWorld
"""Where a world is: its file, or a database and its data directory."""


class UnreadableWorldError(ReportedError):
    """A world that cannot be read; the check of its database says why."""


def find_place(settings: Settings) -> WorldPlace:
    """Return where the world of the settings is."""
    if settings.database:
        return PostgresWorld(DatabaseUrl(settings.database), settings.data_dir)
    return settings.database_file


def data_dir_of(place: WorldPlace) -> Path:
    """Return the data directory of a world."""
    return place.data_dir if isinstance(place, PostgresWorld) else place.parent


def read_world(place: WorldPlace, query: Callable[[Connection], T]) -> T:
    """Run a query on a world, which no server need run; nothing is changed.

    Raises:
        UnreadableWorldError: if that fails.
    """
    if isinstance(place, Path):
        engine = create_engine("sqlite://", creator=lambda: connect_read_only(place))
        try:
            with engine.connect() as conn:
                return query(conn)
        except SQLAlchemyError as error:
            raise UnreadableWorldError(str(error)) from error
        finally:
            engine.dispose()
    try:
        dialect = make_dialect(place.address)
    except SchemaError as error:
        raise UnreadableWorldError(str(error)) from error
    reader = dialect.open_reader()
    try:
        return reader.run(query)
    except Exception as error:
        if not dialect.is_error(error):
            raise
        raise UnreadableWorldError(str(dialect.describe_read_error(error))) from error
    finally:
        reader.close()
        dialect.close()
