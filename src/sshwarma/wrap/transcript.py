"""Rows of a log as messages for a model, cut to size.

A row of others begins in the first column with its speaker in angle brackets, and whom the speaker
addresses (`<alice to qwen> `), or with a square bracket; every later line of it is indented. So no
text can look like another row, whatever it contains: `parse_rows` reads the same rows back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from sshwarma.common.limits import MAX_CONTEXT_TEXT_CHARACTERS, MAX_RESULT_CHARACTERS
from sshwarma.tools.call_outcome import add_changes
from sshwarma.world.agents import AgentDirectory
from sshwarma.world.calls import CHANGES_KEY
from sshwarma.world.end_reason import TURN_END_KEY
from sshwarma.world.leave_out import (
    ACTION_ARGUMENT,
    DEFAULT_POLICY,
    DEFAULT_RETENTION,
    RetentionPolicy,
    ToolRetention,
)
from sshwarma.world.mentions import split_addressees, write_names_plainly
from sshwarma.world.reader import Reader
from sshwarma.world.row import Row
from sshwarma.world.rows import CALL_END_KINDS, CALL_KINDS
from sshwarma.world.tool_names import model_tool_name
from sshwarma.wrap.cut_marks import cut_text, describe_left_out
from sshwarma.wrap.layers import ContextCall, ContextMessage
from sshwarma.wrap.profiles import NO_TOOLS_READER
from sshwarma.wrap.render_cache import RenderCache, RenderedPart, RenderedRows

INDENT: Final = "  "
"""What every line of a row but its first begins with."""

MAX_ARGUMENT_CHARACTERS: Final = 2_000
"""Maximum length of one text in the arguments of an earlier call."""


class TranscriptEntry(NamedTuple):
    """A message, with the row it begins with."""

    row: Row
    message: ContextMessage


class RowPart(NamedTuple):
    """A part of a request that one row makes: a message, or a call of a message.

    It is None for an own call that is left out, and for the result of a call that does not know its
    step.
    """

    row: Row
    sent: ContextMessage | ContextCall | None


class _Links(NamedTuple):
    """What the rows of a log say of each other.

    Attributes:
        calls: All calls, by id.
        own_call_ids: Those of the model that are sent as calls.
        results: The result of each call, by the call's id.
        answered_turn_ids: Turns with an answer, or a part of one.
        sent: `Transcript.sent_characters`, by the id of the result and that of its call.
    """

    calls: dict[str, Row]
    own_call_ids: set[str]
    results: dict[str | None, Row]
    answered_turn_ids: set[str | None]
    sent: dict[str | None, int]

    def is_nested(self, row: Row) -> bool:
        """Return whether a row belongs to a call within a call."""
        call = row if row.kind == "tool.call" else self.calls.get(row.parent_row_id or "")
        return call is not None and call.parent_row_id in self.calls


@dataclass(frozen=True, slots=True)
class Transcript:
    """Formats log rows as chat messages for one model.

    The model's own messages are `assistant`, with its tool calls; all others are `user`, each with
    its speaker. A row is formatted the same whatever follows it, so a provider's cache of the log
    holds.

    Attributes:
        policies: What is left out of the calls of each tool, by its qualified name.
        reader: The model as the reader of texts that name calls.
        max_result_characters: Maximum characters of a tool's result.
        max_kept_characters: The same of a result whose tool says KEEP.
        max_text_characters: Maximum characters of any other row.
        plain_calls: Whether all own calls are text, for a model that is offered no tools.
        text_turn_ids: Turns whose calls are text, because another kind of provider answered.
        sent_characters: Of the model's own results that their turn was sent the start of, its
            characters, by the number of the row: KEEP keeps as much.
        cache: Remembers rows that were formatted.
    """

    model_id: str
    agents: AgentDirectory
    policies: Mapping[str, ToolRetention]
    reader: Reader = NO_TOOLS_READER
    max_result_characters: int = MAX_RESULT_CHARACTERS
    max_kept_characters: int = MAX_RESULT_CHARACTERS
    max_text_characters: int = MAX_CONTEXT_TEXT_CHARACTERS
    plain_calls: bool = False
    text_turn_ids: frozenset[str] = frozenset()
    sent_characters: Mapping[int, int] = field(default_factory=dict)
    cache: RenderCache | None = None

    def render_rows(self, rows: Sequence[Row]) -> tuple[TranscriptEntry, ...]:
        """Return the rows as messages.

        Left out are calls within a call, and what the policy of a tool leaves out.
        """
        return join_parts(self.render_parts(rows))

    def render_parts(self, rows: Sequence[Row]) -> list[RowPart]:
        """Return the parts that are sent of rows, in order; a result is in its own call."""
        links = self._link_rows(rows)
        cached = self._find_cached()
        known = cached.parts if cached is not None else {}
        parts: list[RowPart] = []
        for row in rows:
            kind, parent_id = row.kind, row.parent_row_id
            is_kept = kind not in CALL_KINDS
            if not is_kept:
                if parent_id in links.calls and links.is_nested(row):
                    continue
                if parent_id in links.own_call_ids and kind != "tool.call":  # its call has it
                    if "step" not in links.calls[parent_id or ""].meta:
                        parts.append(RowPart(row, None))
                    continue
                is_kept = row.author_id != self.model_id or row.turn_id not in self.text_turn_ids
            key = f"{row.id} {links.sent[row.id]}" if row.id in links.sent else row.id
            if is_kept and key in known:
                part = known[key]
            else:
                part = self._render_part(row, links)
                if is_kept and cached is not None and self._is_final(row, links):
                    cached.store(key, part)
            if part is not None or row.id in links.own_call_ids:
                parts.append(RowPart(row, part))
        return parts

    def policy_of(self, row: Row, call: Row | None) -> RetentionPolicy:
        """Return the policy of a row of a call; `call` has its arguments, if it is known."""
        retention = self.policies.get(tool_of(row), DEFAULT_RETENTION)
        if not retention.per_action or call is None:
            return retention.whole
        return retention.for_action(_load_arguments(call).get(ACTION_ARGUMENT))

    def _link_rows(self, rows: Sequence[Row]) -> _Links:
        links = _Links({}, set(), {}, set(), {})
        model_id, text_turn_ids = self.model_id, self.text_turn_ids
        for row in rows:
            kind = row.kind
            if kind == "chat":
                if row.parent_row_id and row.turn_id:
                    links.answered_turn_ids.add(row.turn_id)
            elif kind == "tool.call":
                links.calls[row.id] = row
                is_own = row.author_id == model_id and not self.plain_calls
                if is_own and row.turn_id not in text_turn_ids:
                    links.own_call_ids.add(row.id)
            elif kind in CALL_END_KINDS:
                links.results[row.parent_row_id] = row
                if (sent := self.sent_characters.get(row.seq)) is not None:
                    links.sent[row.id] = links.sent[row.parent_row_id] = sent
        return links

    def _find_cached(self) -> RenderedRows | None:
        """Return the rows that were formatted for the same reader."""
        if self.cache is None:
            return None
        policies = frozenset(
            (name, str(policies))
            for name, policies in self.policies.items()
            if policies != DEFAULT_RETENTION
        )
        return self.cache.find(
            (
                self.model_id, self.agents.version, policies, self.reader, self.plain_calls,
                self.max_result_characters, self.max_text_characters,
            )
        )  # fmt: skip

    @staticmethod
    def _is_final(row: Row, links: _Links) -> bool:
        """Return whether a row is formatted so in every log, whatever other rows it has."""
        if row.kind == "notice":
            return False
        if row.kind == "tool.call":
            return row.id in links.results
        return row.kind not in CALL_END_KINDS or row.parent_row_id in links.calls

    def _is_own(self, row: Row) -> bool:
        return row.author_id == self.model_id

    def _render_part(self, row: Row, links: _Links) -> RenderedPart:
        """Return what is sent of a row; None if nothing is."""
        if row.kind == "chat" and self._is_own(row):
            return ContextMessage("assistant", self._text(row))
        if row.id in links.own_call_ids:
            policy = self.policy_of(row, row)
            if policy.mode == "OMIT":
                return None
            return self._render_call(row, links.results.get(row.id), policy)
        call = row if row.kind == "tool.call" else links.calls.get(row.parent_row_id or "")
        is_answered = row.turn_id in links.answered_turn_ids
        text = self._render_row(row, self.policy_of(row, call), is_answered=is_answered)
        return None if text is None else ContextMessage("user", text)

    def _render_call(self, row: Row, result: Row | None, policy: RetentionPolicy) -> ContextCall:
        if result is None:
            text = "There is no result: the turn ended first."
        else:
            text = write_names_plainly(self._result_text(result, policy), self.agents)
        is_error = result is None or result.kind != "tool.result"
        name = model_tool_name(tool_of(row))
        return ContextCall(
            f"call_{row.seq}", name, _read_arguments(row, self.reader), text, is_error
        )

    def _render_row(self, row: Row, policy: RetentionPolicy, *, is_answered: bool) -> str | None:
        """Return a row as the text of a message; None if its tool's policy leaves it out."""
        name = self.agents.name_author(row)
        tool = model_tool_name(tool_of(row))
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
                head, text = f"[{name} called {tool}] ", self._cut_result(row, DEFAULT_POLICY)
            case "tool.result":
                head, text = f"[{tool} returned to {name}] ", self._result_text(row, policy)
            case "tool.error" | "tool.timeout":
                head, text = f"[{tool} failed for {name}] ", self._result_text(row, policy)
            case kind:
                label = kind.removeprefix("journal.")
                head, text = f"[{name} added the {label}] ", self._text(row)
        return frame_text(head, write_names_plainly(text, self.agents))

    def _text(self, row: Row) -> str:
        text = write_names_plainly(
            cut_text(row.content, self.max_text_characters, row.seq, self.reader), self.agents
        )
        return f"{text} … [cut off here]" if row.meta.get("cut") else text

    def _result_text(self, row: Row, policy: RetentionPolicy) -> str:
        """Return what a policy keeps of a result or an error."""
        if policy.mode != "PARAMS_ONLY":
            return self._cut_result(row, policy)
        is_error = row.kind != "tool.result"
        note = describe_left_out(row.content, row.seq, self.reader, is_error=is_error)
        return add_changes(note, row.meta.get(CHANGES_KEY))

    def _cut_result(self, row: Row, policy: RetentionPolicy) -> str:
        limit = min(policy.max_characters, self.max_result_characters)
        if policy.mode == "KEEP":
            sent = self.sent_characters.get(row.seq, policy.max_characters)
            limit = min(max(sent, DEFAULT_POLICY.max_characters), self.max_kept_characters)
        text = cut_text(row.content, limit, row.seq, self.reader)
        return add_changes(text, row.meta.get(CHANGES_KEY))


def join_parts(parts: Sequence[RowPart]) -> tuple[TranscriptEntry, ...]:
    """Return the messages of a log: calls of a step join the text before them."""
    entries: list[TranscriptEntry] = []
    calls: dict[int, list[ContextCall]] = {}  # by entry, those of its message
    # By turn, the entry that further calls of its step join, and the number of the step. There is
    # no entry if the calls of the step were left out, and no number if it is unknown yet.
    steps: dict[str | None, tuple[int | None, int | None]] = {}
    for row, sent in parts:
        turn_id = row.turn_id
        if isinstance(sent, ContextMessage):
            if sent.role == "assistant":
                steps[turn_id] = (len(entries), None)
            entries.append(TranscriptEntry(row, sent))
            continue
        index, open_number = steps.get(turn_id, (None, None))
        if row.kind != "tool.call":  # of an older row, which does not know its step: it ends here
            if open_number is None:
                steps.pop(turn_id, None)
            continue
        number = row.meta.get("step")
        if open_number not in (None, number):
            index = None
        if sent is not None and index is None:
            index = len(entries)
            entries.append(TranscriptEntry(row, _NO_TEXT))
        steps[turn_id] = (index, number)
        if sent is not None and index is not None:
            calls.setdefault(index, []).append(sent)
    for index, joined in calls.items():
        row, message = entries[index]
        entries[index] = TranscriptEntry(
            row, ContextMessage("assistant", message.text, tuple(joined))
        )
    return tuple(entries)


_NO_TEXT: Final = ContextMessage("assistant", "")


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


def tool_of(row: Row) -> str:
    """Return the qualified name of the tool of a call or a result."""
    return str(row.meta.get("tool", "")) or "unknown"


def _load_arguments(row: Row) -> dict[str, Any]:
    """Return the arguments of a call; those that are no object are one argument."""
    try:
        arguments = json.loads(row.content)
    except ValueError:
        arguments = row.content
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def _read_arguments(row: Row, reader: Reader) -> dict[str, Any]:
    """Return the arguments of a call, with long texts cut."""
    arguments = _load_arguments(row)
    return {name: _cut_argument(value, row.seq, reader) for name, value in arguments.items()}


def _cut_argument(value: Any, seq: int, reader: Reader) -> Any:
    if isinstance(value, str):
        return cut_text(value, MAX_ARGUMENT_CHARACTERS, seq, reader)
    if isinstance(value, (list, dict)) and len(text := json.dumps(value)) > MAX_ARGUMENT_CHARACTERS:
        return cut_text(text, MAX_ARGUMENT_CHARACTERS, seq, reader)
    return value
