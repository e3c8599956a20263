"""Connections to the database file, with the pragmas that all of them need."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.pool import NullPool

from sshwarma.world.ids import new_id

BUSY_TIMEOUT_MS = 5_000
"""Milliseconds a connection waits for the lock of another process (a backup, a report)."""

LOCK_RETRY_SECONDS = 0.005
"""Seconds between two tries to open a file that another connection is creating."""


def create_sqlite_engine(path: Path, *, read_only: bool = False) -> Engine:
    """Return an engine without the driver's automatic transactions; we begin them."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"

    def connect() -> sqlite3.Connection:
        # check_same_thread is off so that `close` may be called from the loop's thread.
        return sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=512
        )

    engine = create_engine(
        # Values of statements are what people said: not for logs.
        "sqlite://",
        creator=connect,
        poolclass=NullPool,
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA foreign_keys = ON")
        if not read_only:
            _use_log(connection, path)
            connection.create_function("new_id", 0, new_id)  # for rows that a statement copies
            connection.execute("PRAGMA synchronous = FULL")

    return engine


def _use_log(connection: sqlite3.Connection, path: Path) -> None:
    """Use a write-ahead log; a new file also returns unused pages later.

    SQLite does not wait for the lock of another connection here: two may open a new file at once.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1_000
    while True:
        try:
            if path.stat().st_size == 0:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(LOCK_RETRY_SECONDS)
