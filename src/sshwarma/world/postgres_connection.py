"""The driver's connection under one of SQLAlchemy, and its end."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg
from sqlalchemy import Connection

Driver: TypeAlias = psycopg.Connection[Any]


def driver_of(conn: Connection) -> Driver:
    """Return the driver's connection."""
    driver = conn.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101 - the engine is PostgreSQL's
    return driver


def end_connection(conn: Connection) -> None:
    """End a connection, without the ROLLBACK that a lost one would refuse."""
    conn.invalidate()
    conn.close()
