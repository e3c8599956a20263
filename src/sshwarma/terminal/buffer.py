"""The text being edited: a string, a cursor, the cut text and the undo steps.

The cursor is always on a grapheme cluster boundary, so it is never inside a character. Newline is
the only control character in the text, which has at most MAX_DRAFT_BYTES bytes.
"""

from __future__ import annotations

import re
from typing import Final

from sshwarma.common.limits import MAX_DRAFT_BYTES, MAX_UNDO_CHARACTERS, MAX_UNDO_STEPS
from sshwarma.terminal.escape import TAB_SPACES
from sshwarma.terminal.width import cluster_end, cluster_start, cluster_width, snap_to_boundary

_CONTROL_CHARACTERS: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]+")


class Buffer:
    """Text with a cursor. Movements clamp; nothing raises."""

    __slots__ = ("_bytes", "_typing", "_undo", "cursor", "cut", "text")

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0
        self.cut = ""
        self._undo: list[tuple[str, int]] | None = None
        self._typing = False  # whether the last change was typing; a run of typing is one step
        self._bytes = 0  # at least the size of the text in UTF-8

    # -- changes

    def insert(self, text: str, *, typed: bool = False) -> bool:
        """Insert text at the cursor; return False, unchanged, if it does not fit.

        Tabs become spaces; other control characters are removed. `typed` text is undone together
        with the typing before it.
        """
        if not text.isprintable():
            text = _CONTROL_CHARACTERS.sub("", text.replace("\t", TAB_SPACES))
        if not text:
            return True
        if not self._has_room_for(text):
            return False
        if not (typed and self._typing):
            self._push_undo()
        at = self.cursor
        self.text = self.text[:at] + text + self.text[at:]
        self.cursor = snap_to_boundary(self.text, at + len(text))
        self._typing = typed
        return True

    def delete(self, start: int, end: int) -> str:
        """Remove and return the text between two positions, in either order."""
        start, end = sorted((max(0, start), min(len(self.text), end)))
        text = self.text[start:end]
        if text:
            self._push_undo()
            self.text = self.text[:start] + self.text[end:]
            self._bytes -= len(text)
            self.cursor = snap_to_boundary(self.text, start)
            self._typing = False
        return text

    def kill(self, start: int, end: int) -> None:
        """Delete text and keep it for `yank`."""
        text = self.delete(start, end)
        if text:
            self.cut = text

    def yank(self) -> bool:
        """Insert the text killed last; return False if it does not fit."""
        return self.insert(self.cut)

    def replace(self, start: int, end: int, text: str) -> bool:
        """Replace a range, cursor after it; return False if the text does not fit."""
        new_text = self.text[:start] + text + self.text[end:]
        if _CONTROL_CHARACTERS.search(new_text) or _utf8_size(new_text) > MAX_DRAFT_BYTES:
            return False
        self._push_undo()
        self._replace_range(new_text, start + len(text))
        return True

    def set(self, text: str, cursor: int | None = None) -> None:
        """Replace all text, as from history; drop control characters and the excess."""
        self._push_undo()
        text = _CONTROL_CHARACTERS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
        if len(text) * 4 > MAX_DRAFT_BYTES:
            text = text.encode()[:MAX_DRAFT_BYTES].decode(errors="ignore")
        self._replace_range(text, len(text) if cursor is None else cursor)

    def clear(self) -> None:
        """Start a new line: drop the undo steps, keep the cut text."""
        self.text = ""
        self.cursor = self._bytes = 0
        self._undo = None
        self._typing = False

    def transpose(self) -> None:
        """Swap the characters around the cursor, as emacs does."""
        middle = self.cursor
        if middle == len(self.text):
            middle = cluster_start(self.text, middle)
        if middle <= 0:
            return
        start, end = cluster_start(self.text, middle), cluster_end(self.text, middle)
        if "\n" not in self.text[start:end]:
            self.replace(start, end, self.text[middle:end] + self.text[start:middle])

    def undo(self) -> bool:
        """Undo the last change; return False if there is nothing to undo."""
        if not self._undo:
            return False
        self._replace_range(*self._undo.pop())
        return True

    # -- positions

    def left(self, at: int) -> int:
        """Return the index of the grapheme cluster before `at`, or 0."""
        return cluster_start(self.text, at)

    def right(self, at: int) -> int:
        """Return the index after the grapheme cluster at `at`, or the end of the text."""
        return cluster_end(self.text, at)

    def line_start(self, at: int) -> int:
        """Return the index of the first character of the line that contains `at`."""
        return self.text.rfind("\n", 0, at) + 1

    def line_end(self, at: int) -> int:
        """Return the index of the end of the line that contains `at`, before its newline."""
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def word_left(self, at: int) -> int:
        """Return the start of the word before a position: of letters, digits and `_`."""
        text = self.text
        while at > 0 and not _is_word_character(text[at - 1]):
            at -= 1
        while at > 0 and _is_word_character(text[at - 1]):
            at -= 1
        return snap_to_boundary(text, at)

    def word_right(self, at: int) -> int:
        """Return the end of the word after a position."""
        text, size = self.text, len(self.text)
        while at < size and not _is_word_character(text[at]):
            at += 1
        while at < size and _is_word_character(text[at]):
            at += 1
        return snap_to_boundary(text, at)

    def space_left(self, at: int) -> int:
        """Return the start of the non-spaces before a position, as Ctrl-W cuts."""
        text = self.text
        while at > 0 and text[at - 1].isspace():
            at -= 1
        while at > 0 and not text[at - 1].isspace():
            at -= 1
        return snap_to_boundary(text, at)

    def move(self, at: int) -> None:
        """Put the cursor at the nearest cluster boundary at or after a position."""
        self.cursor = snap_to_boundary(self.text, at)
        self._typing = False

    def move_lines(self, count: int) -> bool:
        """Move the cursor `count` lines down (negative: up); False without such a line."""
        start, column = self.line_start(self.cursor), 0
        column = self.cursor - start
        for _ in range(abs(count)):
            if count < 0:
                if start == 0:
                    return False
                start = self.line_start(start - 1)
            else:
                end = self.line_end(start)
                if end == len(self.text):
                    return False
                start = end + 1
        self.move(min(start + column, self.line_end(start)))
        return True

    # -- internals

    def _has_room_for(self, text: str) -> bool:
        # A character has at most four bytes; count exactly only above that estimate.
        self._bytes += 4 * len(text)
        if self._bytes <= MAX_DRAFT_BYTES:
            return True
        if len(self.text) + len(text) <= MAX_DRAFT_BYTES:
            self._bytes = _utf8_size(self.text) + _utf8_size(text)
            if self._bytes <= MAX_DRAFT_BYTES:
                return True
            self._bytes -= _utf8_size(text)
        else:
            self._bytes -= 4 * len(text)
        return False

    def _replace_range(self, text: str, cursor: int) -> None:
        self.text = text
        self.cursor = snap_to_boundary(text, cursor)
        self._bytes = _utf8_size(text)
        self._typing = False

    def _push_undo(self) -> None:
        if self._undo is None:
            self._undo = []
        steps = self._undo
        steps.append((self.text, self.cursor))
        if len(steps) > MAX_UNDO_STEPS:
            del steps[0]
        if len(self.text) > MAX_UNDO_CHARACTERS // MAX_UNDO_STEPS:
            size = sum(len(text) for text, _ in steps)
            while size > MAX_UNDO_CHARACTERS:
                size -= len(steps.pop(0)[0])


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _is_word_character(char: str) -> bool:
    # Combining marks are part of their word, although they are neither letters nor digits.
    return char.isalnum() or char == "_" or (char > "\u02ff" and cluster_width(char) == 0)
