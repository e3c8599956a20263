"""The interface of what handles the models that an answer mentions."""

from __future__ import annotations

from typing import Protocol, TypeVar

from sshwarma.world.agents import Agent
from sshwarma.world.row import Row
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn

TurnT = TypeVar("TurnT", contravariant=True)
"""The running turn whose answer it is."""


class FollowUpHandler(Protocol[TurnT]):
    """Handles the models that an answer mentions."""

    def open_follow_ups(
        self, tx: Change, running_turn: TurnT, row: Row
    ) -> list[tuple[Turn, Agent]]:
        """Open turns for the models that the final answer `row` mentions; return them."""

    def start_follow_ups(
        self, running_turn: TurnT, row: Row | None, opened: list[tuple[Turn, Agent]]
    ) -> None:
        """Handle the end of a turn whose last row is stored; `opened` are its follow-ups."""
