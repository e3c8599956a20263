"""Reasoning that a model writes into its answer between `<think>` and `</think>`.

`<thinking>` and capitals are accepted too. Some chat templates open the tag in the prompt, so that
an answer has only the closing one: what stood before it was reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sshwarma.models.backend import ReasoningDelta, TextDelta, TextFold

TAGS: Final = ("<think>", "<thinking>", "</think>", "</thinking>")

_OPENING: Final = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_CLOSING: Final = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_TAG: Final = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)
_LONGEST_TAG: Final = max(map(len, TAGS))


class ThinkTagSplitter:
    """Splits a streamed answer into text and reasoning, wherever the chunks end.

    Only an answer that begins with the opening tag has reasoning, or one whose first tag is a
    closing one outside quotation marks; a later tag is text.
    """

    def __init__(self) -> None:
        self._state = "start"  # then "reasoning" or "untagged", "blank" and "text"
        self._held = ""  # the beginning of a tag, perhaps
        self._last = ""  # the last character before the chunk

    def split(self, delta: str) -> Iterator[TextDelta | ReasoningDelta | TextFold]:
        """Yield the next parts of the answer; a part of a tag is held back."""
        chunk = self._held + delta
        self._held = ""
        if self._state == "start":
            chunk = self._begin(chunk)
        if self._state == "reasoning":
            match = _CLOSING.search(chunk)
            reasoning = self._hold_tag_start(chunk) if match is None else chunk[: match.start()]
            if reasoning:
                yield ReasoningDelta(reasoning)
            if match is None:
                return
            self._state, chunk = "blank", chunk[match.end() :]
        if self._state == "untagged":
            match = _TAG.search(chunk)
            if match is None:
                chunk = self._hold_tag_start(chunk)
                self._last = chunk[-1:] or self._last
            elif not _CLOSING.match(match[0]) or self._is_quoted(chunk, match.start()):
                self._state = "text"
            else:
                if match.start():
                    yield TextDelta(chunk[: match.start()])
                yield TextFold()
                self._state, chunk = "blank", chunk[match.end() :]
        if self._state == "blank":
            chunk = chunk.lstrip()
            self._state = "text" if chunk else "blank"
        if chunk:
            yield TextDelta(chunk)

    def end(self) -> str:
        """Return the text that was held back at the end of the answer."""
        held, self._held = self._held, ""
        return held

    def _begin(self, chunk: str) -> str:
        """Read the beginning of the answer; return what follows an opening tag."""
        begun = chunk.lstrip()
        match = _OPENING.match(begun)
        if match is not None:
            self._state = "reasoning"
            return begun[match.end() :]
        if any(tag.startswith(begun.lower()) and tag != begun.lower() for tag in TAGS):
            self._held = chunk
            return ""
        self._state = "untagged"
        return chunk

    def _is_quoted(self, chunk: str, start: int) -> bool:
        return (self._last + chunk[:start])[-1:] in ("`", "'", '"')

    def _hold_tag_start(self, text: str) -> str:
        """Hold back what may begin a tag at the end of a text; return the rest."""
        start = text.rfind("<", -_LONGEST_TAG)
        if start < 0 or not any(tag.startswith(text[start:].lower()) for tag in TAGS):
            return text
        self._held = text[start:]
        return text[:start]
