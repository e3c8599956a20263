"""Detection of an answer that repeats itself without end, as small models do."""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import Final

MIN_REPETITIONS: Final = 6
"""Minimum number of consecutive repetitions of a piece of text."""

MIN_REPEATED_CHARACTERS: Final = 400
"""Characters that the repetitions must take, if the piece has words."""

MIN_REPEATED_SYMBOLS: Final = 2_000
"""The same for a piece without words: rules, tables and numbers repeat for a reason."""

MAX_PIECE_CHARACTERS: Final = 400
"""Maximum length of a piece that is looked for."""

CHECK_CHARACTERS: Final = 120
"""Characters between two checks."""

MAX_RECENT_SENTENCES: Final = 24
MAX_DISTINCT_SENTENCES: Final = 3
"""An answer repeats itself if its last MAX_RECENT_SENTENCES sentences contain at most this many
different ones, in any order."""

MIN_SENTENCE_LETTERS: Final = 10
"""Letters of a sentence that counts; lines such as `end` repeat in code."""

_SENTENCE_END: Final = re.compile(r"[.!?…]+\s+|\n+")
_LIST_MARK: Final = re.compile(r"^\W*(\d+[.)])?\W*")
MIN_WORD_LETTERS: Final = 2
"""Different letters of a piece that has words; `xxxx` has none."""


class RepetitionDetector:
    """Watches a streamed text. `feed` is cheap: it looks at the end of the text only."""

    def __init__(self) -> None:
        self._tail = ""
        self._unchecked = 0
        self._rest = ""  # the sentence that has not ended
        self._recent: deque[str] = deque(maxlen=MAX_RECENT_SENTENCES)

    def feed(self, delta: str) -> bool:
        """Add the next part of the text; return whether the text's end repeats itself."""
        keep = max(MAX_PIECE_CHARACTERS * MIN_REPETITIONS, MIN_REPEATED_SYMBOLS)
        self._tail = (self._tail + delta)[-keep:]
        *sentences, self._rest = _SENTENCE_END.split(self._rest + delta)
        self._rest = self._rest[-MAX_PIECE_CHARACTERS:]
        for sentence in sentences:
            words = _LIST_MARK.sub("", sentence.strip()).lower()
            if sum(map(str.isalpha, words)) >= MIN_SENTENCE_LETTERS:
                self._recent.append(words)
        self._unchecked += len(delta)
        if self._unchecked < CHECK_CHARACTERS:
            return False
        self._unchecked = 0
        return self._repeats_sentences() or find_repeated_piece(self._tail) is not None

    def _repeats_sentences(self) -> bool:
        return (
            len(self._recent) == MAX_RECENT_SENTENCES
            and len(Counter(self._recent)) <= MAX_DISTINCT_SENTENCES
        )


def find_repeated_piece(text: str) -> str | None:
    """Return the piece that a text ends with several times in a row, or None.

    Several: at least MIN_REPETITIONS.
    """
    for size in range(1, min(MAX_PIECE_CHARACTERS, len(text) // MIN_REPETITIONS) + 1):
        piece = text[-size:]
        has_words = len({letter for letter in piece if letter.isalpha()}) >= MIN_WORD_LETTERS
        least = MIN_REPEATED_CHARACTERS if has_words else MIN_REPEATED_SYMBOLS
        count = max(MIN_REPETITIONS, -(-least // size))
        if count * size > len(text):
            continue
        end = text[-count * size :]
        if end[size:] == end[:-size]:
            return piece
    return None


def trim_repetition(text: str) -> str:
    """Return a text with one of the equal pieces that it ends with."""
    piece = find_repeated_piece(text)
    if piece is None:
        return text
    size = len(piece)
    start = len(text)
    while start >= size and text[start - size : start] == piece:
        start -= size
    return text[: start + size].rstrip()
