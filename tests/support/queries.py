"""Counting what is asked of databases, and rooms with many texts to ask about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

from sshwarma.world import equipment, things
from sshwarma.world.store import Change
from support.people import Someone


@contextmanager
def listing_queries() -> Iterator[list[str]]:
    """Yield a list to which each statement of all databases is added."""
    asked: list[str] = []

    def note(*said: Any) -> None:
        asked.append(said[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def equip_texts(someone: Someone, count: int, text: str = "x", name: str = "text") -> None:
    """Put texts in the room of somebody, and equip them there."""
    room_id = someone.room_id

    def fill(tx: Change) -> None:
        made = [
            things.create_thing(tx, room_id, "data", f"{name}-{number}", content=text)
            for number in range(count)
        ]
        equipment.equip_things(tx, room_id, made)

    await someone.world.change(fill)
