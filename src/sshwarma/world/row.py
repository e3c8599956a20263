"""The entry of a room's log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import RowMapping

from sshwarma.world.stored_json import read_object_or_none


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


def row_from_mapping(row: RowMapping) -> Row:
    """Return the row of a database row."""
    return Row(
        id=row["id"],
        room_id=row["room_id"],
        seq=row["seq"],
        kind=row["kind"],
        content=row["content"],
        author_id=row["author_id"],
        created_at=row["created_at"],
        parent_row_id=row["parent_row_id"],
        turn_id=row["turn_id"],
        status=row["status"],
        meta=read_object_or_none(row["meta"]) or {},
        n=row["n"],
    )
