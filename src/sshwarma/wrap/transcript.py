"""Rows of a log as messages for a model: speakers, texts and tool results, cut to size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sshwarma.common.limits import (
    MAX_CONTEXT_RESULT_CHARACTERS,
    MAX_CONTEXT_TEXT_CHARACTERS,
    MAX_KEPT_RESULT_CHARACTERS,
)
from sshwarma.world.agents import AgentDirectory
from sshwarma.world.row import Row
from sshwarma.wrap.layers import ContextMessage

RetentionMode = Literal["KEEP", "SHORT", "PARAMS_ONLY", "OMIT"]


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How much of a tool's calls is kept once their turn is over.

    KEEP the result, its start (SHORT, `max_characters` of it), the call without its result
    (PARAMS_ONLY), or nothing (OMIT).
    """

    mode: RetentionMode = "SHORT"
    max_characters: int = MAX_CONTEXT_RESULT_CHARACTERS

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> RetentionPolicy:
        """Return a tool's policy, from `leave_out` and `short_amount` of its metadata."""
        leave = str(metadata.get("leave_out", "SHORT")).upper()
        amount = metadata.get("short_amount", MAX_CONTEXT_RESULT_CHARACTERS)
        characters = (
            amount if isinstance(amount, int) and amount > 0 else MAX_CONTEXT_RESULT_CHARACTERS
        )
        match leave:
            case "KEEP":
                return cls("KEEP", MAX_KEPT_RESULT_CHARACTERS)
            case "PARAMS_ONLY":
                return cls("PARAMS_ONLY", characters)
            case "OMIT":
                return cls("OMIT", characters)
            case _:
                return cls("SHORT", min(characters, MAX_KEPT_RESULT_CHARACTERS))


@dataclass(frozen=True, slots=True)
class Transcript:
    """Formats log rows as chat messages for one model.

    The model's own messages are `assistant`, all others `user`, each line with its speaker. A row
    is formatted the same whatever follows it, so a provider's cache of the log holds.
    `max_result_characters` and `max_text_characters` are the most characters of each.
    """

    model_id: str
    agents: AgentDirectory
    policies: Mapping[str, RetentionPolicy]
    max_result_characters: int = MAX_KEPT_RESULT_CHARACTERS
    max_text_characters: int = MAX_CONTEXT_TEXT_CHARACTERS

    def render_rows(self, rows: Sequence[Row]) -> tuple[ContextMessage, ...]:
        """Return the rows as messages, without those that a tool's policy leaves out."""
        return tuple(line for row in rows if (line := self.render_row(row)) is not None)

    def render_row(self, row: Row) -> ContextMessage | None:
        """Return a row as a message; None if its tool's policy leaves it out."""
        if row.author_id == self.model_id and row.kind == "chat":
            return ContextMessage(
                "assistant", clip_text(row.content, self.max_text_characters, row.seq)
            )
        text = self._render_event(row)
        return None if text is None else ContextMessage("user", text)

    def _render_event(self, row: Row) -> str | None:
        name = self.agents.name_of(row.author_id)
        tool = str(row.meta.get("tool", ""))
        policy = self.policies.get(tool, RetentionPolicy())
        match row.kind:
            case "chat":
                return f"<{name}> {clip_text(row.content, self.max_text_characters, row.seq)}"
            case "emote":
                return f"<{name}> * {clip_text(row.content, self.max_text_characters, row.seq)}"
            case _ if row.kind.startswith("tool.") and policy.mode == "OMIT":
                return None
            case "tool.call":
                return f"[{name} called {tool} {self._clip_result(row, RetentionPolicy())}]"
            case "tool.result" if policy.mode == "PARAMS_ONLY":
                return f"[{tool} returned {len(row.content)} characters to {name}: row {row.seq}]"
            case "tool.result":
                return f"[{tool} returned to {name}: {self._clip_result(row, policy)}]"
            case "tool.error" | "tool.timeout":
                return f"[{tool} failed for {name}: {self._clip_result(row, RetentionPolicy())}]"
            case kind:
                label = kind.removeprefix("journal.")
                text = clip_text(row.content, self.max_text_characters, row.seq)
                return f"[{name} added the {label}: {text}]"

    def _clip_result(self, row: Row, policy: RetentionPolicy) -> str:
        return clip_text(
            row.content, min(policy.max_characters, self.max_result_characters), row.seq
        )


def clip_text(text: str, characters: int, seq: int) -> str:
    """Return the start of a text that is too long, with the row and position to read on.

    Never cut within a code point.
    """
    omitted_count = len(text) - characters
    if omitted_count <= 0:
        return text
    call = f"expand row {seq} start {characters}"
    return f"{text[:characters]}… ({omitted_count} more characters: {call})"
