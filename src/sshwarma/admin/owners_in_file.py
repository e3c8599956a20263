"""Agents and owners in a database that this process has not opened as a world."""

from __future__ import annotations

from pathlib import Path

from sshwarma.admin.world_place import UnreadableWorldError, WorldPlace, read_world
from sshwarma.world.agents import Agent, read_agents
from sshwarma.world.login_keys import AgentKey
from sshwarma.world.owners import count_usable_owners


def count_owners(place: WorldPlace) -> int:
    """Count the owners in a database of the newest schema who can log in.

    Raises:
        UnreadableWorldError: if it cannot be read.
    """
    return count_usable_owners(*read_agents_of(place))


def was_logged_in_to(place: WorldPlace) -> bool:
    """Return whether somebody has logged in by a key; False if it cannot be read."""
    if isinstance(place, Path) and not place.exists():
        return False
    try:
        _, keys = read_agents_of(place)
    except UnreadableWorldError:  # damaged, or of an older schema
        return False
    return any(key.last_used_at is not None for key in keys)


def read_agents_of(place: WorldPlace) -> tuple[list[Agent], list[AgentKey]]:
    """Return the agents and keys in a database, which is opened for reading only.

    Raises:
        UnreadableWorldError: if it cannot be read.
    """
    return read_world(place, read_agents)
