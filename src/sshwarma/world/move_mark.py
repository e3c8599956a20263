"""The mark of a database whose world was moved: no server starts on it.

In a data directory it is the file `world-move.json`, which one whose world was never in a file has,
too; on PostgreSQL it is the table `world_move`. A copy has such a mark until the world that it was
made of has its own: of a move that is killed, at most one can be started, and the same command
finishes or repeats it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from sshwarma.common.files import store_on_disk
from sshwarma.common.reported_error import ReportedError

if TYPE_CHECKING:
    from sqlalchemy import Connection

MARK_NAME: Final = "world-move.json"

MARK_TABLE: Final = "world_move"

MoveState = Literal["moved", "arriving"]


class MovedWorldError(ReportedError):
    """A database whose world is in another one."""


@dataclass(frozen=True, slots=True)
class MoveMark:
    """The mark of a database that a world was moved from, or is moved to.

    Attributes:
        state: `moved` if the world is elsewhere, `arriving` if its copy is not in use yet.
        place: where it is, or where it comes from.
    """

    state: MoveState
    place: str

    def describe(self, here: str, way_back: str) -> str:
        """Return why no server starts on the database `here`, and what to do.

        `way_back` is how to use that database again.
        """
        if self.state == "moved":
            return (
                f"The world of {here} is in {self.place}. {_describe_setting(self.place)}"
                f" If it is not meant, {way_back}."
            )
        return (
            f"{here} has the copy of a move from {self.place}, which was not finished. Run the same"
            " sshwarma migrate-to again."
        )


def _describe_setting(place: str) -> str:
    if place.startswith("postgres"):
        return f'Write database = "{place}" into the settings.'
    return "Remove database from the settings."


def read_file_mark(database: Path) -> MoveMark | None:
    """Return the mark beside a database file, or None.

    Raises:
        MovedWorldError: if it cannot be understood.
    """
    path = database.with_name(MARK_NAME)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return MoveMark(found["state"], str(found["place"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise MovedWorldError(
            f"{path} cannot be read. It says where the world of this directory was moved to. If it"
            " was not moved, delete that file."
        ) from error


def check_not_moved(database: Path) -> None:
    """Check that the world of a file was not moved to another database.

    Raises:
        MovedWorldError: with its address.
    """
    if (mark := read_file_mark(database)) is not None:
        path = database.with_name(MARK_NAME)
        raise MovedWorldError(mark.describe(str(database.parent), f"delete {path}"))


def write_file_mark(database: Path, mark: MoveMark) -> None:
    """Write the mark of a database file, and wait until it would outlast a power cut."""
    path = database.with_name(MARK_NAME)
    part = path.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"state": mark.state, "place": mark.place}, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    store_on_disk(path.parent)


def delete_file_mark(database: Path) -> None:
    """Delete the mark of a database file, if there is one."""
    database.with_name(MARK_NAME).unlink(missing_ok=True)
    store_on_disk(database.parent)


def read_table_mark(conn: Connection) -> MoveMark | None:
    """Return the mark of a database on PostgreSQL, or None."""
    query = f"SELECT to_regclass('{MARK_TABLE}') IS NOT NULL"
    if not conn.exec_driver_sql(query).scalar_one():
        return None
    row = conn.exec_driver_sql(f"SELECT state, place FROM {MARK_TABLE}").first()  # noqa: S608
    return None if row is None else MoveMark(row[0], row[1])


def write_table_mark(conn: Connection, mark: MoveMark | None) -> None:
    """Write the mark of a database on PostgreSQL, or delete it."""
    conn.exec_driver_sql(f"DROP TABLE IF EXISTS {MARK_TABLE}")
    if mark is None:
        return
    conn.exec_driver_sql(f"CREATE TABLE {MARK_TABLE} (state text NOT NULL, place text NOT NULL)")
    conn.exec_driver_sql(
        f"INSERT INTO {MARK_TABLE} VALUES (%s, %s)",  # noqa: S608
        (mark.state, mark.place),
    )


def check_table_not_moved(conn: Connection, place: str) -> None:
    """Check that the world of a database on PostgreSQL was not moved to a file.

    Raises:
        MovedWorldError: with its place.
    """
    if (mark := read_table_mark(conn)) is not None:
        raise MovedWorldError(mark.describe(place, f"run there: DROP TABLE {MARK_TABLE}"))
