"""Questions: turns that a person's message starts, when models call each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.errors import Forbidden

SCRIPTED_KEY: Final = "scripted"
"""The key of a row's metadata that says that a script asked it."""


@dataclass(slots=True)
class Question:
    """The turns that one message has started.

    Models may call each other while they answer. Each is asked once, so that the chain ends.

    Attributes:
        person_id: Id of the agent that wrote the message.
        max_turns: Maximum number of turns that it may start.
        is_scripted: Whether a script or a custom command wrote the message, or one that led from
            it to another model.
        via: The key or token that the message came by, as the audit has it; "" if none.
        root_turn_id: Id of its first turn; "" before that is open.
        asked_ids: Ids of the models that were asked.
    """

    person_id: str
    max_turns: int
    root_turn_id: str = ""
    asked_ids: set[str] = field(default_factory=set)
    via: str = ""
    is_scripted: bool = False

    def name_script(self, agents: AgentDirectory) -> str:
        """Return what asks, for the audit, if a script does; else ""."""
        return f"a script of {agents.name_of(self.person_id)}" if self.is_scripted else ""

    def explain_refusal(self, agent_id: str, more: int = 0) -> str:
        """Return why a model cannot be asked now, after `more` others; "" if it can be."""
        if agent_id in self.asked_ids:
            return "each model answers a question once"
        if len(self.asked_ids) + more >= self.max_turns:
            return f"one question starts at most {self.max_turns} answers"
        return ""

    @contextmanager
    def asking(self, models: Iterable[Agent]) -> Iterator[None]:
        """Count models as asked; none of them if one may not be, or the block fails.

        Raises:
            Forbidden: if one was asked before, or they are too many.
        """
        new_ids: list[str] = []
        for agent in models:
            reason = self.explain_refusal(agent.id, len(new_ids))
            if reason:
                raise Forbidden(
                    f"{agent.name} cannot be called: {reason}.",
                    hint="Write the name without the @.",
                )
            new_ids.append(agent.id)
        self.asked_ids.update(new_ids)
        try:
            yield
        except BaseException:
            self.take_back(new_ids)
            raise

    def take_back(self, agent_ids: Iterable[str]) -> None:
        """Forget that models were asked, because their turns were not stored."""
        self.asked_ids.difference_update(agent_ids)
