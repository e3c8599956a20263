"""Vi's command mode over a Buffer: motions, operators, counts.

h l w b e 0 ^ $ f t F T ; move; d c y take a motion or are doubled for the line; x X D C s S r p P
u i a I A act as in vi. j k / and every key that is not text go to the editor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sshwarma.terminal.buffer import Buffer

MAX_REPEAT_COUNT: Final = 999
"""Maximum repeat count; a larger one is clamped."""


class ViMode:
    """The state of one person's vi mode."""

    __slots__ = ("_count", "_find", "_operator", "_wants", "insert")

    def __init__(self) -> None:
        self.insert = True
        self._find = ("f", "")
        self.reset()

    def reset(self) -> None:
        """Drop an incomplete command."""
        self._count = ""
        self._operator = ""
        self._wants = ""  # f t F T or r, while its character is expected

    def escape(self, buffer: Buffer) -> None:
        """Enter command mode; the cursor moves onto the character before it."""
        if self.insert and buffer.cursor > buffer.line_start(buffer.cursor):
            buffer.move(buffer.left(buffer.cursor))
        self.insert = False
        self.reset()

    def press(self, buffer: Buffer, char: str) -> str:
        """Process a character in command mode; return a key for the editor, or ""."""
        if self._wants:
            self._character(buffer, char)
        elif char.isdecimal() and char.isascii() and (char != "0" or self._count):
            self._count = (self._count + char)[:4]
        elif self._operator and char == self._operator:
            self._lines(buffer, char)
        elif char in _MOTIONS:
            self._motion(buffer, char)
        elif char in "ftFT":
            self._wants = char
        elif char == ";" and self._find[1]:
            self._find_character(buffer, *self._find)
        elif self._operator:
            self.reset()
        elif char in "dcy":
            self._operator = char
        elif char == "r":
            self._wants = char
        elif char in _EDITOR_KEYS:
            self.reset()
            return _EDITOR_KEYS[char]
        else:
            self._command(buffer, char)
        self._clamp_cursor(buffer)
        return ""

    def _command(self, buffer: Buffer, char: str) -> None:
        """Execute a command that takes no motion."""
        command = _COMMANDS.get(char)
        if command is not None:
            for _ in range(self._take_count() if char in _REPEATABLE_COMMANDS else 1):
                command(self, buffer)
        self.reset()

    def _take_count(self) -> int:
        return min(int(self._count or "1"), MAX_REPEAT_COUNT)

    def _clamp_cursor(self, buffer: Buffer) -> None:
        """Move the cursor onto the last character in command mode, if it is after it."""
        at = buffer.cursor
        if not self.insert and at == buffer.line_end(at) and at > buffer.line_start(at):
            buffer.move(buffer.left(at))

    def _character(self, buffer: Buffer, char: str) -> None:
        wants, self._wants = self._wants, ""
        if wants != "r":
            self._find = (wants, char)
            self._find_character(buffer, wants, char)
            return
        start = end = buffer.cursor
        for _ in range(self._take_count()):
            end = buffer.right(end)
        if end <= buffer.line_end(start):
            buffer.replace(start, end, char * self._take_count())
            buffer.move(buffer.left(buffer.cursor))
        self.reset()

    def _find_character(self, buffer: Buffer, how: str, char: str) -> None:
        at, text = buffer.cursor, buffer.text
        for _ in range(self._take_count()):
            if how in "ft":
                at = text.find(char, at + 1, buffer.line_end(buffer.cursor))
            else:
                at = text.rfind(char, buffer.line_start(buffer.cursor), at)
            if at < 0:
                self.reset()
                return
        at = {"t": buffer.left, "T": buffer.right}.get(how, int)(at)
        # Up to and including for f and t, up to for F and T, as in vi.
        self._apply(buffer, at, buffer.right(at) if how in "ft" else at)

    def _motion(self, buffer: Buffer, char: str) -> None:
        if self._operator == "c" and char == "w":
            char = "e"  # vi leaves the space behind a changed word
        at = buffer.cursor
        for _ in range(self._take_count()):
            at = _MOTIONS[char](buffer, at)
        self._apply(buffer, at, buffer.right(at) if char == "e" else at)

    def _apply(self, buffer: Buffer, at: int, end: int) -> None:
        """Move to `at`, or apply the operator up to `end`."""
        operator = self._operator
        self.reset()
        start = buffer.cursor
        if not operator:
            buffer.move(at)
        elif operator == "y":
            buffer.cut = buffer.text[min(start, end) : max(start, end)] or buffer.cut
            buffer.move(min(start, end))
        else:
            buffer.kill(start, end)
            self.insert = operator == "c"

    def _lines(self, buffer: Buffer, operator: str) -> None:
        start = buffer.line_start(buffer.cursor)
        end = buffer.line_end(start)
        for _ in range(self._take_count() - 1):
            end = buffer.line_end(min(end + 1, len(buffer.text)))
        self.reset()
        if operator == "y":
            buffer.cut = buffer.text[start:end] or buffer.cut
            return
        if operator == "d":
            if end < len(buffer.text):
                end += 1
            elif start:
                start -= 1
        buffer.kill(start, end)
        self.insert = operator == "c"


def _character_kind(text: str, at: int) -> int:
    """Classify a character: 0 for space, 1 for punctuation, 2 for word characters."""
    char = text[at]
    return 0 if char.isspace() else 2 if char.isalnum() or char == "_" else 1


def _next_word_start(buffer: Buffer, at: int) -> int:
    text, size = buffer.text, len(buffer.text)
    if at < size:
        kind = _character_kind(text, at)
        while at < size and kind and _character_kind(text, at) == kind:
            at += 1
        while at < size and not _character_kind(text, at):
            at += 1
    return at


def _previous_word_start(buffer: Buffer, at: int) -> int:
    text = buffer.text
    while at > 0 and not _character_kind(text, at - 1):
        at -= 1
    kind = _character_kind(text, at - 1) if at else 0
    while at > 0 and _character_kind(text, at - 1) == kind:
        at -= 1
    return at


def _word_end(buffer: Buffer, at: int) -> int:
    text, last = buffer.text, len(buffer.text) - 1
    at = min(at + 1, last)
    while 0 <= at < last and not _character_kind(text, at):
        at += 1
    while 0 <= at < last and _character_kind(text, at + 1) == _character_kind(text, at):
        at += 1
    return max(at, 0)


def _first_nonblank(buffer: Buffer, at: int) -> int:
    at, end = buffer.line_start(at), buffer.line_end(at)
    while at < end and buffer.text[at].isspace():
        at += 1
    return at


_MOTIONS: Final[dict[str, Callable[[Buffer, int], int]]] = {
    "h": lambda buffer, at: max(buffer.left(at), buffer.line_start(at)),
    "l": lambda buffer, at: min(buffer.right(at), buffer.line_end(at)),
    " ": lambda buffer, at: min(buffer.right(at), buffer.line_end(at)),
    "0": lambda buffer, at: buffer.line_start(at),
    "$": lambda buffer, at: buffer.line_end(at),
    "^": _first_nonblank,
    "w": _next_word_start,
    "b": _previous_word_start,
    "e": _word_end,
}

_EDITOR_KEYS: Final = {"j": "down", "k": "up", "/": "c-r"}


def _make_insert_command(place: Callable[[Buffer], int]) -> Callable[[ViMode, Buffer], None]:
    def command(vi: ViMode, buffer: Buffer) -> None:
        buffer.move(place(buffer))
        vi.insert = True

    return command


def _make_kill_command(
    place: Callable[[Buffer], int], *, insert: bool
) -> Callable[[ViMode, Buffer], None]:
    def command(vi: ViMode, buffer: Buffer) -> None:
        buffer.kill(buffer.cursor, place(buffer))
        vi.insert = insert

    return command


def _line_right(buffer: Buffer) -> int:
    return min(buffer.right(buffer.cursor), buffer.line_end(buffer.cursor))


def _line_left(buffer: Buffer) -> int:
    return max(buffer.left(buffer.cursor), buffer.line_start(buffer.cursor))


def _put_after(vi: ViMode, buffer: Buffer) -> None:
    buffer.move(_line_right(buffer))
    _put_before(vi, buffer)


def _put_before(vi: ViMode, buffer: Buffer) -> None:
    if buffer.cut and buffer.yank():
        buffer.move(buffer.left(buffer.cursor))


def _change_line(vi: ViMode, buffer: Buffer) -> None:
    start = buffer.line_start(buffer.cursor)
    buffer.kill(start, buffer.line_end(start))
    vi.insert = True


def _undo(vi: ViMode, buffer: Buffer) -> None:
    buffer.undo()


_COMMANDS: Final[dict[str, Callable[[ViMode, Buffer], None]]] = {
    "x": _make_kill_command(_line_right, insert=False),
    "X": _make_kill_command(_line_left, insert=False),
    "s": _make_kill_command(_line_right, insert=True),
    "D": _make_kill_command(lambda buffer: buffer.line_end(buffer.cursor), insert=False),
    "C": _make_kill_command(lambda buffer: buffer.line_end(buffer.cursor), insert=True),
    "S": _change_line,
    "i": _make_insert_command(lambda buffer: buffer.cursor),
    "a": _make_insert_command(_line_right),
    "I": _make_insert_command(lambda buffer: _first_nonblank(buffer, buffer.cursor)),
    "A": _make_insert_command(lambda buffer: buffer.line_end(buffer.cursor)),
    "p": _put_after,
    "P": _put_before,
    "u": _undo,
}

_REPEATABLE_COMMANDS: Final = "xXpPu"
