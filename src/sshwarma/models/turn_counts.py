"""Turns that have ended, counted for the metrics since the start of the server."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sshwarma.world.end_reason import EndCause
from sshwarma.world.turns import TurnStatus


@dataclass(slots=True)
class TurnCounts:
    """Ended turns by the id of their model's agent.

    Attributes:
        ended: by agent id and status.
        failed: those without a whole answer, by agent id and cause; stopped ones are no failures.
    """

    ended: Counter[tuple[str, TurnStatus]] = field(default_factory=Counter)
    failed: Counter[tuple[str, EndCause]] = field(default_factory=Counter)

    def count_end(self, agent_id: str, status: TurnStatus, cause: EndCause | None) -> None:
        """Count a turn that has ended."""
        self.ended[agent_id, status] += 1
        if status == "failed" and cause is not None:
            self.failed[agent_id, cause] += 1
