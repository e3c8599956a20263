"""Ids and timestamps as the world writes them."""

from __future__ import annotations

import time
from typing import Final

import uuid_utils

LOBBY_ID: Final = "lobby"
"""The room that everybody may enter, in which logins land."""

HOME_ID: Final = "home"
"""The room whose things everybody can use, as in `home:NAME`."""

PERMANENT_ROOMS: Final = (LOBBY_ID, HOME_ID)
"""Rooms that are always there, and always open."""


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562) as text: unique, sorted by time of creation."""
    return str(uuid_utils.uuid7())


def now_ms() -> int:
    """Wall-clock time, milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000
