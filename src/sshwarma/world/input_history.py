"""Input history: the latest lines that each agent typed at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from sshwarma.common.limits import MAX_INPUT_HISTORY_LINES
from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.schema import input_lines
from sshwarma.world.store import Change


def read_input_history(conn: Connection, agent_id: str) -> list[str]:
    """Return the latest lines the agent typed, oldest first."""
    query = (
        select(input_lines.c.line)
        .where(input_lines.c.agent_id == agent_id)
        .order_by(input_lines.c.n.desc())
        .limit(MAX_INPUT_HISTORY_LINES)
    )
    return [line for (line,) in conn.execute(query)][::-1]


def append_input_history(tx: Change, typed: Sequence[tuple[str, str]]) -> None:
    """Append (agent id, line) pairs to input histories, and drop the oldest lines.

    Each history keeps MAX_INPUT_HISTORY_LINES lines.
    """
    rows = [{"agent_id": agent_id, "line": replace_nul(line)} for agent_id, line in typed]
    tx.conn.execute(insert(input_lines), rows)
    for agent_id in {agent_id for agent_id, _ in typed}:
        condition = input_lines.c.agent_id == agent_id
        query = select(input_lines.c.n).where(condition).order_by(input_lines.c.n.desc())
        cutoff = tx.conn.execute(query.offset(MAX_INPUT_HISTORY_LINES).limit(1)).scalar()
        if cutoff is not None:
            tx.conn.execute(input_lines.delete().where(condition, input_lines.c.n <= cutoff))
