"""Tokens spent: one row for each answer of a provider.

Rows stay when a turn is undone, because the money is spent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, case, func, insert, select

from sshwarma.world.schema import usage
from sshwarma.world.store import Change


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one step, as the provider counts them; `estimated` if it does not."""

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False
    cost: float | None = None  # US dollars, where the price is known


def record_usage(
    tx: Change,
    room_id: str,
    agent_id: str,
    turn_id: str | None,
    model: str,
    spent: TokenUsage,
) -> None:
    """Record the usage of one step."""
    time = datetime.fromtimestamp(tx.now / 1000, UTC)
    tx.conn.execute(
        insert(usage).values(
            room_id=room_id,
            agent_id=agent_id,
            turn_id=turn_id,
            model=model,
            prompt_tokens=spent.prompt_tokens,
            completion_tokens=spent.completion_tokens,
            estimated=int(spent.estimated),
            cost=spent.cost,
            created_at=time.isoformat(timespec="milliseconds"),
        )
    )


def read_usage_since(conn: Connection, agent_id: str, day: str) -> tuple[int, float, int, int, int]:
    """Tokens, US dollars and unpriced answers of an agent since a day began (UTC).

    Of the unpriced answers the tokens of prompts and of completions follow.
    The day is written `2026-11-21`. Rows are in order of time, so only later ones are read; those
    of imports, which are of any time, have ids below 1 and do not count.
    """
    last_id = (
        select(usage.c.id)
        .where(usage.c.created_at < day, usage.c.id > 0)
        .order_by(usage.c.id.desc())
        .limit(1)
    )
    query = select(
        func.coalesce(func.sum(usage.c.total_tokens), 0),
        func.coalesce(func.sum(usage.c.cost), 0.0),
        func.count() - func.count(usage.c.cost),
        _sum_unpriced(usage.c.prompt_tokens),
        _sum_unpriced(usage.c.completion_tokens),
    ).where(usage.c.id > func.coalesce(last_id.scalar_subquery(), 0), usage.c.agent_id == agent_id)
    tokens, cost, unpriced, prompt, completion = conn.execute(query).one()
    return tokens, cost, unpriced, prompt, completion


def _sum_unpriced(column: ColumnElement[int]) -> ColumnElement[int]:
    """Return the sum of a column over the answers without a price."""
    return func.coalesce(func.sum(case((usage.c.cost.is_(None), column), else_=0)), 0)
