"""Events as text, for the other servers of a world.

A row is named by its number and read by who hears of it. An event that this version does not know
becomes one that empties caches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from sshwarma.world.events import (
    AgentEvicted,
    AgentsChanged,
    Announcement,
    Event,
    FilesChanged,
    KeyExpirySet,
    KeyRemoved,
    MemoryChanged,
    RowAppended,
    StreamEnded,
    TokenRevoked,
    TriggerChanged,
    TurnsChanged,
    WorldChanged,
)
from sshwarma.world.row import Row

KINDS: Final[Mapping[str, Callable[..., Event]]] = {
    kind.__name__: kind
    for kind in (
        AgentEvicted,
        AgentsChanged,
        Announcement,
        FilesChanged,
        KeyExpirySet,
        KeyRemoved,
        MemoryChanged,
        StreamEnded,
        TokenRevoked,
        TriggerChanged,
        TurnsChanged,
        WorldChanged,
    )
}
"""What units of work publish, besides rows, by name."""

_ROW: Final = "row"


def write_events(events: Iterable[Event]) -> str:
    """Return events as JSON: a list of objects, in their order."""
    return json.dumps([_write(event) for event in events])


def _write(event: Event) -> dict[str, Any]:
    if isinstance(event, RowAppended):
        written: dict[str, Any] = {"kind": _ROW, "n": event.row.n}
        if event.audience is not None:
            written["audience"] = sorted(event.audience)
        return written
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {"kind": type(event).__name__, **values}


def list_row_numbers(text: str) -> list[int]:
    """Return the numbers of the rows that events name."""
    found = (event.get("n") for event in _parse(text) if event.get("kind") == _ROW)
    return [n for n in found if isinstance(n, int)]


def _parse(text: str) -> list[dict[str, Any]]:
    """Return the objects of a text; another version may have written it."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        return [{}]
    return [event if isinstance(event, dict) else {} for event in found]


def read_events(text: str, rows: Mapping[int, Row]) -> list[Event]:
    """Return the events of a text.

    Args:
        text: made by `write_events`, perhaps of another version.
        rows: those that it names, by number; one that is deleted since is left out.
    """
    found: list[Event] = []
    for event in _parse(text):
        kind = event.pop("kind", "")
        if kind == _ROW:
            row, audience = rows.get(event.get("n", 0)), event.get("audience")
            if row is not None:
                found.append(RowAppended(row, None if audience is None else frozenset(audience)))
        elif kind in KINDS:
            found.append(_read(KINDS[kind], event))
        else:
            found.append(WorldChanged())
    return found


def _read(kind: Callable[..., Event], values: Mapping[str, Any]) -> Event:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    known = {name: _to_tuple(value) for name, value in values.items() if name in names}
    try:
        return kind(**known)
    except TypeError:  # of another version, which writes less
        return WorldChanged()


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
