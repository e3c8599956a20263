"""Drafts: text of an unfinished answer, stored in parts to survive a crash.

The draft is deleted once the answer is a row.
"""

from __future__ import annotations

from sqlalchemy import delete, func, insert, select

from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.schema import drafts
from sshwarma.world.store import Change


def append_draft(tx: Change, turn_id: str, text: str) -> None:
    """Append text to a turn's draft. A NUL becomes visible."""
    last_part = tx.conn.scalar(select(func.max(drafts.c.part)).where(drafts.c.turn_id == turn_id))
    row = {"turn_id": turn_id, "part": (last_part or 0) + 1, "text": replace_nul(text)}
    tx.conn.execute(insert(drafts).values(row))


def delete_draft(tx: Change, turn_id: str) -> None:
    """Delete a turn's draft."""
    tx.conn.execute(delete(drafts).where(drafts.c.turn_id == turn_id))


def pop_draft(tx: Change, turn_id: str) -> str:
    """Return a turn's draft and delete it; empty if there is no draft."""
    condition = drafts.c.turn_id == turn_id
    parts = tx.conn.scalars(select(drafts.c.text).where(condition).order_by(drafts.c.part)).all()
    delete_draft(tx, turn_id)
    return "".join(parts)
