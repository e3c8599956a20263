"""Tokens spent: one row for each answer of a provider. They stay when a turn is undone, because
the money does."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import insert

from sshwarma.world.schema import usage
from sshwarma.world.store import Change


def record(
    tx: Change,
    room_id: str,
    agent_id: str,
    turn_id: str,
    model: str,
    prompt_tokens: int,
    completion_tokens: int,
    *,
    estimated: bool,
    cost: float | None = None,
) -> None:
    """Add what one step cost. `estimated`: the provider did not count, we did. `cost` is in US
    dollars, None where the price is not known."""
    at = datetime.fromtimestamp(tx.now / 1000, UTC)
    tx.conn.execute(
        insert(usage).values(
            session_id=room_id,
            agent_id=agent_id,
            turn_id=turn_id,
            model=model,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            estimated=int(estimated),
            cost=cost,
            created_at=at.isoformat(timespec="milliseconds"),
        )
    )
