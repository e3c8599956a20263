"""Reasoning that a model writes into its answer between `<think>` and `</think>`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sshwarma.models.backend import ReasoningDelta, TextDelta

OPENING: Final = "<think>"
CLOSING: Final = "</think>"


class ThinkTagSplitter:
    """Splits a streamed answer into text and reasoning, wherever the chunks end.

    Only an answer that begins with the opening tag has reasoning; a later tag is text.
    """

    def __init__(self) -> None:
        self._state = "start"  # then "reasoning", "blank" and "text"
        self._held = ""  # the beginning of a tag, perhaps

    def split(self, delta: str) -> Iterator[TextDelta | ReasoningDelta]:
        """Yield the next parts of the answer; a part of a tag is held back."""
        chunk = self._held + delta
        self._held = ""
        if self._state == "start":
            begun = chunk.lstrip()
            if OPENING.startswith(begun):
                self._held = chunk
                return
            if begun.startswith(OPENING):
                self._state, chunk = "reasoning", begun.removeprefix(OPENING)
            else:
                self._state = "text"
        if self._state == "reasoning":
            reasoning, tag, text = chunk.partition(CLOSING)
            if tag:
                self._state = "blank"
            else:
                length = _tag_start_length(reasoning)
                self._held = reasoning[len(reasoning) - length :]
                reasoning = reasoning[: len(reasoning) - length]
            if reasoning:
                yield ReasoningDelta(reasoning)
            chunk = text
        if self._state == "blank":
            chunk = chunk.lstrip()
            self._state = "text" if chunk else "blank"
        if chunk:
            yield TextDelta(chunk)

    def end(self) -> str:
        """Return the text that was held back at the end of the answer."""
        held, self._held = self._held, ""
        return held


def _tag_start_length(text: str) -> int:
    """Return how many characters at the end of a text may begin the closing tag."""
    for length in range(min(len(CLOSING) - 1, len(text)), 0, -1):
        if CLOSING.startswith(text[len(text) - length :]):
            return length
    return 0
