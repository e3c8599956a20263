"""Questions: the turns that one message of a person starts, when models call each other."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Question:
    """The turns that one message has started.

    Models may call each other while they answer. Each is asked once, so that the chain ends.

    Attributes:
        person_id: Id of the agent that wrote the message.
        max_turns: Maximum number of turns that it may start.
        root_turn_id: Id of its first turn; "" before that is open.
        asked_ids: Ids of the models that were asked.
    """

    person_id: str
    max_turns: int
    root_turn_id: str = ""
    asked_ids: set[str] = field(default_factory=set)

    def refuse_reason(self, agent_id: str) -> str:
        """Return why a model cannot be asked now; "" if it can be."""
        if agent_id in self.asked_ids:
            return "each model answers a question once"
        if len(self.asked_ids) >= self.max_turns:
            return f"one question starts at most {self.max_turns} answers"
        return ""
