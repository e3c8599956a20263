"""Connections to a database file that read it, and cannot change it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def connect_read_only(
    database: Path, *, is_immutable: bool = False, **options: Any
) -> sqlite3.Connection:
    """Return a connection that can only read a database file.

    A connection that may write makes a file which does not exist, rolls a change back that was
    killed, and writes the log into the database when it is closed: a check and a backup must leave
    a world as it is, also that of a running server.

    Args:
        database: its path, which may have any character.
        is_immutable: whether nobody changes it meanwhile: then SQLite makes no file beside it, and
            takes no lock.
        options: those of `sqlite3.connect`.

    Raises:
        sqlite3.OperationalError: if there is no such file.
    """
    uri = f"{database.absolute().as_uri()}?mode=ro{'&immutable=1' if is_immutable else ''}"
    opened: sqlite3.Connection = sqlite3.connect(uri, uri=True, **options)
    return opened


@contextlib.contextmanager
def opened_read_only(database: Path, **options: Any) -> Iterator[sqlite3.Connection]:
    """Open a database as `connect_read_only` does, and close it."""
    with contextlib.closing(connect_read_only(database, **options)) as opened:
        yield opened
