"""Rows of a log as messages for a model, cut to size.

A row of others begins in the first column with its speaker in angle brackets, and whom the speaker
addresses (`<alice to qwen> `), or with a square bracket; every later line of it is indented. So no
text can look like another row, whatever it contains: `parse_rows` reads the same rows back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sshwarma.common.limits import (
    MAX_CONTEXT_RESULT_CHARACTERS,
    MAX_CONTEXT_TEXT_CHARACTERS,
    MAX_KEPT_RESULT_CHARACTERS,
)
from sshwarma.tools.call_outcome import add_changes
from sshwarma.world.agents import AgentDirectory
from sshwarma.world.calls import CHANGES_KEY
from sshwarma.world.end_reason import TURN_END_KEY
from sshwarma.world.mentions import split_addressees, write_names_plainly
from sshwarma.world.reader import Reader, next_call
from sshwarma.world.row import Row
from sshwarma.world.tool_names import model_tool_name
from sshwarma.wrap.layers import ContextCall, ContextMessage
from sshwarma.wrap.profiles import NO_TOOLS_READER

RetentionMode = Literal["KEEP", "SHORT", "PARAMS_ONLY", "OMIT"]

INDENT: Final = "  "
"""What every line of a row but its first begins with."""

RESULT_KINDS: Final = frozenset(("tool.result", "tool.error", "tool.timeout"))

MAX_ARGUMENT_CHARACTERS: Final = 2_000
"""Maximum length of one text in the arguments of an earlier call."""


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
class TranscriptEntry:
    """A message, with the row it begins with."""

    row: Row
    message: ContextMessage


@dataclass(frozen=True, slots=True)
class _OpenStep:
    """The message that further calls of a step join; `number` is None if unknown yet."""

    entry: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """Formats log rows as chat messages for one model.

    The model's own messages are `assistant`, with its tool calls; all others are `user`, each with
    its speaker. A row is formatted the same whatever follows it, so a provider's cache of the log
    holds.

    Attributes:
        reader: The model as the reader of texts that name calls.
        max_result_characters: Maximum characters of a tool's result.
        max_text_characters: Maximum characters of any other row.
        plain_calls: Whether all own calls are text, for a model that is offered no tools.
        text_turn_ids: Turns whose calls are text, because another kind of provider answered.
    """

    model_id: str
    agents: AgentDirectory
    policies: Mapping[str, RetentionPolicy]
    reader: Reader = NO_TOOLS_READER
    max_result_characters: int = MAX_KEPT_RESULT_CHARACTERS
    max_text_characters: int = MAX_CONTEXT_TEXT_CHARACTERS
    plain_calls: bool = False
    text_turn_ids: frozenset[str] = frozenset()

    def render_rows(self, rows: Sequence[Row]) -> tuple[TranscriptEntry, ...]:
        """Return the rows as messages.

        Left out are calls within a call, and what the policy of a tool leaves out.
        """
        call_ids = {row.id for row in rows if row.kind == "tool.call"}
        nested_ids = {
            row.id for row in rows if row.kind == "tool.call" and row.parent_row_id in call_ids
        }
        own_call_ids = {
            row.id
            for row in rows
            if row.kind == "tool.call"
            and self._is_own(row)
            and row.turn_id not in self.text_turn_ids
        }
        if self.plain_calls:
            own_call_ids.clear()
        results = {row.parent_row_id: row for row in rows if row.kind in RESULT_KINDS}
        answered_turn_ids = {
            row.turn_id for row in rows if row.kind == "chat" and row.parent_row_id and row.turn_id
        }
        entries: list[TranscriptEntry] = []
        steps: dict[str | None, _OpenStep] = {}  # by turn, what its next call may join
        for row in rows:
            if row.id in nested_ids or row.parent_row_id in nested_ids:
                continue
            if self._is_own(row) and row.kind == "chat":
                steps[row.turn_id] = _OpenStep(len(entries))
                entries.append(TranscriptEntry(row, ContextMessage("assistant", self._text(row))))
            elif row.id in own_call_ids:
                self._add_call(entries, steps, row, results.get(row.id))
            elif row.parent_row_id in own_call_ids and row.kind in RESULT_KINDS:
                # Its call has it. Calls of older rows do not know their step: the next begins one.
                if row.turn_id in steps and steps[row.turn_id].number is None:
                    del steps[row.turn_id]
            else:
                text = self._render_row(row, is_answered=row.turn_id in answered_turn_ids)
                if text is not None:
                    entries.append(TranscriptEntry(row, ContextMessage("user", text)))
        return tuple(entries)

    def _is_own(self, row: Row) -> bool:
        return row.author_id == self.model_id

    def _add_call(
        self,
        entries: list[TranscriptEntry],
        steps: dict[str | None, _OpenStep],
        row: Row,
        result: Row | None,
    ) -> None:
        """Add an own call to the message of its step, or begin one."""
        policy = self._policy(row)
        if policy.mode == "OMIT":
            return
        call = self._render_call(row, result, policy)
        number = row.meta.get("step")
        step = steps.get(row.turn_id)
        if step is None or step.number not in (None, number):
            steps[row.turn_id] = _OpenStep(len(entries), number)
            entries.append(TranscriptEntry(row, ContextMessage("assistant", "", (call,))))
        else:
            steps[row.turn_id] = _OpenStep(step.entry, number)
            entry = entries[step.entry]
            message = replace(entry.message, calls=(*entry.message.calls, call))
            entries[step.entry] = replace(entry, message=message)

    def _render_call(self, row: Row, result: Row | None, policy: RetentionPolicy) -> ContextCall:
        if result is None:
            text = "There is no result: the turn ended first."
        elif policy.mode == "PARAMS_ONLY" and result.kind == "tool.result":
            text = f"{len(result.content)} characters: row {result.seq}"
        else:
            text = write_names_plainly(self._cut_result(result, policy), self.agents)
        is_error = result is None or result.kind != "tool.result"
        name = model_tool_name(_tool_of(row))
        return ContextCall(
            f"call_{row.seq}", name, _read_arguments(row, self.reader), text, is_error
        )

    def _render_row(self, row: Row, *, is_answered: bool) -> str | None:
        """Return a row as the text of a message; None if its tool's policy leaves it out."""
        name = self.agents.name_of(row.author_id)
        tool = model_tool_name(_tool_of(row))
        policy = self._policy(row)
        match row.kind:
            case "chat":
                speaker, said = split_addressees(name, row.content, self.agents)
                return frame_text(f"<{speaker}> ", self._text(replace(row, content=said)))
            case "emote":
                return frame_text(f"[{name} emotes] ", self._text(row))
            case "notice":
                what = "answer above is incomplete" if is_answered else "question was not answered"
                reason = row.meta.get(TURN_END_KEY)
                head = f"[The {what}] "
                text = f"{name} {reason}" if isinstance(reason, str) else name  # True in old rows
            case _ if row.kind.startswith("tool.") and policy.mode == "OMIT":
                return None
            case "tool.call":
                head, text = f"[{name} called {tool}] ", self._cut_result(row, RetentionPolicy())
            case "tool.result" if policy.mode == "PARAMS_ONLY":
                head = f"[{tool} returned to {name}] "
                text = f"{len(row.content)} characters: row {row.seq}"
            case "tool.result":
                head, text = f"[{tool} returned to {name}] ", self._cut_result(row, policy)
            case "tool.error" | "tool.timeout":
                head = f"[{tool} failed for {name}] "
                text = self._cut_result(row, RetentionPolicy())
            case kind:
                label = kind.removeprefix("journal.")
                head, text = f"[{name} added the {label}] ", self._text(row)
        return frame_text(head, write_names_plainly(text, self.agents))

    def _policy(self, row: Row) -> RetentionPolicy:
        return self.policies.get(_tool_of(row), RetentionPolicy())

    def _text(self, row: Row) -> str:
        text = write_names_plainly(
            cut_text(row.content, self.max_text_characters, row.seq, self.reader), self.agents
        )
        return f"{text} … [cut off here]" if row.meta.get("cut") else text

    def _cut_result(self, row: Row, policy: RetentionPolicy) -> str:
        limit = min(policy.max_characters, self.max_result_characters)
        text = cut_text(row.content, limit, row.seq, self.reader)
        return add_changes(text, row.meta.get(CHANGES_KEY))


def frame_text(head: str, text: str) -> str:
    """Return a text behind a head, with all its lines but the first indented.

    Every character that some reader may take for the end of a line counts as one.
    """
    first, *others = text.splitlines() or [""]
    return "\n".join([head + first, *(INDENT + line for line in others)])


_HEAD_START: Final = re.compile(
    r"(?:^|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))(?=\[|<[^>\s]+(?: to [^>]+)?> )"
)


def indent_heads(text: str) -> str:
    """Indent the lines of a text that begin like a row or a heading of the context.

    For results of a model's own tools, which are not behind a head: their other lines stay as they
    are, because they may be files that the model is going to edit.
    """
    return _HEAD_START.sub(INDENT, text)


_FRAME: Final = re.compile(r"(<[^>\s]+(?: to [^>\s]+(?:, [^>\s]+)*)?> |\[[^\]]*\] )(.*)")


def parse_rows(text: str) -> list[tuple[str, str]]:
    """Return the heads and the texts of the rows that a user message consists of.

    The inverse of `frame_text`. Only tests use it: with it they prove that no text that somebody
    writes can pass for a row of somebody else.

    Raises:
        ValueError: if a line of the first column has no head.
    """
    parsed: list[tuple[str, str]] = []
    for line in text.split("\n"):
        if line.startswith(INDENT) and parsed:
            head, body = parsed[-1]
            parsed[-1] = (head, f"{body}\n{line.removeprefix(INDENT)}")
            continue
        match = _FRAME.fullmatch(line)
        if match is None:
            raise ValueError(f"This line has no head: {line[:80]!r}")
        parsed.append((match[1], match[2]))
    return parsed


def cut_text(text: str, characters: int, seq: int, reader: Reader, length: int = 0) -> str:
    """Return the start of a text that is too long, with the call that reads on.

    Never cut within a code point.

    Args:
        text: The text, or the start of it.
        characters: Maximum characters of it that stay.
        seq: Number of the row that has the whole text.
        reader: Who reads it; a model that is not offered the call reads the row's number.
        length: Characters of the whole text, if `text` is only its start.
    """
    if len(text) <= characters:
        return text
    omitted_count = max(length, len(text)) - characters
    call = next_call(": {}", "expand", row=seq, start=characters).text(reader)
    return f"{text[:characters]}… ({omitted_count:,} more characters{call or f' in row {seq}'})"


def _tool_of(row: Row) -> str:
    return str(row.meta.get("tool", "")) or "unknown"


def _read_arguments(row: Row, reader: Reader) -> dict[str, Any]:
    """Return the arguments of a call, with long texts cut."""
    try:
        arguments = json.loads(row.content)
    except ValueError:
        arguments = row.content
    if not isinstance(arguments, dict):
        return {"arguments": _cut_argument(arguments, row.seq, reader)}
    return {name: _cut_argument(value, row.seq, reader) for name, value in arguments.items()}


def _cut_argument(value: Any, seq: int, reader: Reader) -> Any:
    if isinstance(value, str):
        return cut_text(value, MAX_ARGUMENT_CHARACTERS, seq, reader)
    if isinstance(value, (list, dict)) and len(text := json.dumps(value)) > MAX_ARGUMENT_CHARACTERS:
        return cut_text(text, MAX_ARGUMENT_CHARACTERS, seq, reader)
    return value
