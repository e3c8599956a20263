"""Agents and owners in the file of a database that no world is open on."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from sshwarma.common.read_only_database import connect_read_only
from sshwarma.world.agents import Agent, read_agents
from sshwarma.world.login_keys import AgentKey
from sshwarma.world.owners import count_usable_owners


def count_owners(database: Path) -> int:
    """Count the owners in a database of the newest schema who can log in.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: if it cannot be read.
    """
    return count_usable_owners(*read_agents_of(database))


def was_logged_in_to(database: Path) -> bool:
    """Return whether somebody has logged in by a key; False if it cannot be read."""
    if not database.exists():
        return False
    try:
        _, keys = read_agents_of(database)
    except SQLAlchemyError:  # damaged, or of an older schema
        return False
    return any(key.last_used_at is not None for key in keys)


def read_agents_of(database: Path) -> tuple[list[Agent], list[AgentKey]]:
    """Return the agents and keys in a database, which is opened for reading only.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: if it cannot be read.
    """
    engine = create_engine("sqlite://", creator=lambda: connect_read_only(database))
    try:
        with engine.connect() as conn:
            return read_agents(conn)
    finally:
        engine.dispose()
