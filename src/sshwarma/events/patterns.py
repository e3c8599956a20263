"""Which rows somebody wants to hear of: `mention,row:decision,call:error`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sshwarma.common.limits import MAX_EVENT_PATTERNS
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_name
from sshwarma.events.event_types import RowEvent
from sshwarma.events.heard_rows import RowsEvent
from sshwarma.world.errors import Invalid

_JOURNAL: Final = ("note", "decision", "idea", "milestone")
_ROW_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": ("chat",),
    "emote": ("emote",),
    "notice": ("notice",),
    "journal": tuple(f"journal.{kind}" for kind in _JOURNAL),
    **{kind: (f"journal.{kind}",) for kind in _JOURNAL},
}
_CALL_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "begin": ("tool.call",),
    "result": ("tool.result",),
    "error": ("tool.error", "tool.timeout"),
}
_DETAILS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "row": _ROW_KINDS,
    "call": _CALL_KINDS,
}

PATTERNS: Final[Mapping[str, str]] = {
    "mention": "a message that calls you",
    "tell": "a private message to you",
    "row": "each row",
    **{f"row:{kind}": f"each row of the kind {kind}" for kind in _ROW_KINDS},
    "call": "each call of a tool that has ended",
    "call:begin": "each call that begins",
    "call:result": "each call that gives a result",
    "call:error": "each call that fails",
    "approval": "each question whether a call may run",
    "enter": "somebody comes",
    "leave": "somebody goes",
    "turns": "answers are taken back or restored",
}
"""All patterns, with what they stand for."""


@dataclass(frozen=True, slots=True)
class EventPattern:
    """A pattern: its text, the kinds of rows, and what else an event must be."""

    text: str
    kinds: frozenset[str] = frozenset()

    def matches(self, event: RowsEvent) -> bool:
        """Return whether an event is meant."""
        if not isinstance(event, RowEvent):
            return self.text == "turns"
        if event.room is None:  # private: also what who hears has said to somebody
            return self.text == "tell" and event.to_you
        match self.text:
            case "mention":
                return event.mention
            case "approval":
                return event.approval is not None
            case "enter":
                return event.kind == "presence" and event.text.startswith("arrives")
            case "leave":
                return event.kind == "presence" and not event.text.startswith("arrives")
            case "row":
                return True
            case _:
                return event.kind in self.kinds


def parse_patterns(text: str) -> tuple[EventPattern, ...]:
    """Return the patterns of a list with commas, each once.

    Raises:
        Invalid: if one is unknown, the list is empty, or it has more than MAX_EVENT_PATTERNS.
    """
    words = list(dict.fromkeys(word.strip().lower() for word in text.split(",") if word.strip()))
    if not words:
        raise Invalid("on: must name an event.", hint=f"Events: {', '.join(PATTERNS)}.")
    if len(words) > MAX_EVENT_PATTERNS:
        raise Invalid(f"on: {with_limit('too many events', MAX_EVENT_PATTERNS)}.")
    return tuple(_make_pattern(word) for word in words)


def _make_pattern(word: str) -> EventPattern:
    if word not in PATTERNS:
        raise Invalid(
            f"on: unknown event {shorten_name(word)}.", hint=f"Events: {', '.join(PATTERNS)}."
        )
    head, _, detail = word.partition(":")
    if word == "call":
        return EventPattern(word, frozenset(_CALL_KINDS["result"] + _CALL_KINDS["error"]))
    return EventPattern(word, frozenset(_DETAILS[head][detail] if detail else ()))


def list_matches(patterns: tuple[EventPattern, ...], event: RowsEvent) -> tuple[str, ...]:
    """Return the patterns that mean an event."""
    return tuple(pattern.text for pattern in patterns if pattern.matches(event))
