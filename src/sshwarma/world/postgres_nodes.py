"""The servers of a world on PostgreSQL: who has it, and who is alive.

A server tells every BEAT_SECONDS that it lives. One that was silent for DEAD_SECONDS is taken for
dead, and another may use the world: so a standby can wait on another machine. That is noted under
the lock of all writers, and each batch looks at it under that lock: a server that was only frozen
stores nothing once another has taken over. Times are the database's.
"""

from __future__ import annotations

import socket
from typing import Any, Final

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from sshwarma import __version__
from sshwarma.world.errors import Unavailable
from sshwarma.world.migrate import SchemaError
from sshwarma.world.postgres_connection import Driver, driver_of

WORLD_LOCK: Final = 0x73737761726D61
"""Key of the advisory lock that each writer of a world holds while it has a batch: "sswarma"."""

BEAT_SECONDS: Final = 2.0
"""Seconds between two signs of life."""

DEAD_SECONDS: Final = 10
"""Seconds of silence after which a server is taken for dead."""

CLAIM_TIMEOUT_MS: Final = 20_000
"""Milliseconds that a new server waits for the lock, which a frozen one may hold for a while."""

_BEAT: Final = (
    "UPDATE nodes SET beat_at = clock_timestamp() WHERE id = %s AND state = 'up' RETURNING 1"
)
_LEAVE: Final = "UPDATE nodes SET state = 'left' WHERE id = %s AND state = 'up'"
_END_DEAD: Final = (
    "UPDATE nodes SET state = 'dead' WHERE state = 'up' AND (name = %s"
    " OR beat_at < clock_timestamp() - make_interval(secs => %s))"
)
_SELECT_LIVE: Final = (
    "SELECT name, extract(epoch FROM clock_timestamp() - beat_at)::int FROM nodes"
    " WHERE state = 'up' LIMIT 1"
)
_INSERT: Final = "INSERT INTO nodes (id, name, version, state) VALUES (%s, %s, %s, 'up')"
_DELETE_OLD: Final = (
    "DELETE FROM nodes WHERE state <> 'up' AND beat_at < clock_timestamp() - interval '30 days'"
)


def take_world_lock(driver: Driver) -> None:
    """Take the lock of all writers, until the end of the transaction."""
    driver.execute("SELECT pg_advisory_xact_lock(%s)", (WORLD_LOCK,))


class NodeLostError(Unavailable):
    """Another server has taken over this world: this one stores nothing any more."""

    def __init__(self) -> None:
        super().__init__(
            "Another server has taken over this world. Nothing was stored.",
            hint="Connect again.",
        )


class Node:
    """This server among those of its world.

    Attributes:
        id: new at each start, so that nobody has what an earlier server had.
        name: of the machine and its data directory; no two servers have the same one.
        is_registered: whether others know of it, so that it may be taken for dead.
    """

    def __init__(self, node_id: str, name: str) -> None:
        self.id = node_id
        self.name = name or f"{socket.gethostname()}:{node_id}"
        self.is_registered = False

    def register(self, engine: Engine, place: str) -> None:
        """Take the world for this server.

        Args:
            engine: of the database.
            place: of the database, for errors.

        Raises:
            SchemaError: if another server has it, or the database cannot be reached.
        """
        try:
            with engine.connect() as conn:
                driver = driver_of(conn)
                with driver.transaction():
                    found = self._register(driver)
        except (psycopg.Error, DBAPIError) as error:
            raise SchemaError(f"{place} cannot be used: {type(error).__name__}") from error
        if found is not None:
            name, seconds = found
            raise SchemaError(
                f"Another server uses the world in {place}: {name}, seen {seconds} s ago. One that"
                f" was not seen for {DEAD_SECONDS} s is taken for dead."
            )
        self.is_registered = True

    def _register(self, driver: Driver) -> tuple[Any, ...] | None:
        """Register, or return the name of another server and when it was seen."""
        driver.execute(f"SET LOCAL lock_timeout = {CLAIM_TIMEOUT_MS}")
        take_world_lock(driver)
        driver.execute(_END_DEAD, (self.name, DEAD_SECONDS))
        found = driver.execute(_SELECT_LIVE).fetchone()
        if found is None:
            driver.execute(_DELETE_OLD)
            driver.execute(_INSERT, (self.id, self.name, __version__))
        return found

    def beat(self, driver: Driver) -> bool:
        """Give a sign of life; return whether this server still has the world.

        Raises:
            psycopg.Error: if the database cannot be reached.
        """
        return not self.is_registered or driver.execute(_BEAT, (self.id,)).fetchone() is not None

    def leave(self, engine: Engine) -> None:
        """Give the world back, if the database can be reached.

        Raises:
            psycopg.Error, DBAPIError: if it cannot.
        """
        if self.is_registered:
            self.is_registered = False
            with engine.connect() as conn:
                conn.exec_driver_sql(_LEAVE, (self.id,))
