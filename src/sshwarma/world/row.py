"""The entry of a room's log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of a room's log. `seq` counts up by one per room and has no ties."""

    id: str
    room_id: str
    seq: int
    kind: str
    content: str
    author_id: str | None
    created_at: int
    parent_row_id: str | None = None
    turn_id: str | None = None
    status: str = "completed"
    meta: dict[str, Any] = field(default_factory=dict)
    n: int = 0  # position in the whole world's log
