"""Joins halves of surrogate pairs.

Programs that cut UTF-16 text stream them in two chunks.
"""

from __future__ import annotations


class SurrogateJoiner:
    """Joins halves of pairs across the chunks of a stream, and replaces lone ones."""

    def __init__(self) -> None:
        self._held = ""  # the first half of a pair

    def join(self, chunk: str) -> str:
        """Return the text of the next chunk; a first half at its end is held back."""
        text, self._held = self._held + chunk, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return _repair(text)

    def end(self) -> str:
        """Return a replacement for a half that was held back; "" if there was none."""
        text, self._held = self._held, ""
        return _repair(text)


def _repair(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
