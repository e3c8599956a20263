"""The line editor: keys in, a changed text out. No screen, no I/O.

`Editor.press` takes a key and answers with an Act for its owner. Emacs keys always; vi's command
mode on top of them when asked for. Enter submits; Alt-Enter begins another line of the same
message, and so does a newline in a paste.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from sshwarma.terminal.buffer import LINE_LIMIT, Buffer
from sshwarma.terminal.history import History
from sshwarma.terminal.keys import Key
from sshwarma.terminal.vi import Vi
from sshwarma.terminal.width import cluster_width

SUBMIT_LIMIT: Final = 16 * 1024
"""Bytes of UTF-8 in a submitted line, unless the owner sets another limit."""

QUERY_MAX: Final = 200
"""Characters of a history search."""


class Act(Enum):
    """What the owner is to do after a key."""

    NOTHING = "nothing"
    DRAW = "draw"  # the text or the cursor may have changed
    SUBMIT = "submit"  # `Editor.take` has the line
    INTERRUPT = "interrupt"
    EOF = "eof"
    COMPLETE = "complete"
    REPAINT = "repaint"
    BELL = "bell"


class Editor:
    """One person's line. `notice` holds a refusal to be shown, until the owner clears it."""

    __slots__ = ("_found", "_query", "buffer", "history", "notice", "submit_limit", "vi")

    def __init__(self, history: Sequence[str] = (), *, vi: bool = False) -> None:
        self.buffer = Buffer()
        self.history = History(history)
        self.vi = Vi() if vi else None
        self.notice = ""
        self.submit_limit = SUBMIT_LIMIT
        self._query: str | None = None  # what Ctrl-R looks for, while it does
        self._found: int | None = None

    @property
    def text(self) -> str:
        """What is shown as being edited: the draft, or what a search has found."""
        if self._query is None:
            return self.buffer.text
        return "" if self._found is None else self.history[self._found]

    @property
    def cursor(self) -> int:
        """Where the cursor stands in `text`."""
        if self._query is None:
            return self.buffer.cursor
        return max(0, self.text.find(self._query))

    @property
    def searching(self) -> str | None:
        """The query of the history search that is under way, or None."""
        return self._query

    def take(self) -> str:
        """The submitted line; the editor begins a new one and history has it."""
        line = self.buffer.text
        self.history.add(line)
        self.buffer.clear()
        self._fresh()
        return line

    def prefill(self, text: str) -> None:
        """Put a draft into the editor, with the cursor at its end."""
        self._query = None
        self.buffer.set(text)
        self._fresh()

    def _fresh(self) -> None:
        if self.vi:
            self.vi.insert = True
            self.vi.reset()

    def press(self, key: Key) -> Act:
        """Take one key."""
        if self._query is not None:
            return self._search(key)
        name = key.name
        if name == "paste":
            return self._paste(key)
        if self.vi and not (name == "text" and self.vi.insert):
            return self._vi(self.vi, key)
        if name == "text":
            return self._insert(key.data)
        return self._emacs(name)

    def _emacs(self, name: str) -> Act:
        binding = _BINDINGS.get(name)
        return binding(self) if binding else Act.NOTHING

    def _vi(self, vi: Vi, key: Key) -> Act:
        name = key.name
        if name == "escape":
            vi.escape(self.buffer)
            return Act.DRAW
        if name == "text":
            return self._command(vi, key.data)
        if len(name) == 3 and name.startswith("m-"):
            # Escape and a letter in one packet; alt means nothing else in vi.
            vi.escape(self.buffer)
            return self._command(vi, name[2])
        if not vi.insert and name == "backspace":
            name = "left"
        return self._emacs(name)

    def _command(self, vi: Vi, text: str) -> Act:
        for index, char in enumerate(text):
            if vi.insert:
                return self._insert(text[index:])
            pressed = vi.press(self.buffer, char)
            if pressed:
                self._emacs(pressed)
        return Act.DRAW

    def _insert(self, text: str) -> Act:
        return Act.DRAW if self.buffer.insert(text, typed=True) else self._refuse()

    def _paste(self, key: Key) -> Act:
        if key.overflow or not self.buffer.insert(key.data):
            return self._refuse()
        if self.vi:
            self.vi.reset()
        return Act.DRAW

    def _refuse(self) -> Act:
        self.notice = f"that is too much for one line: the limit is {LINE_LIMIT} bytes"
        return Act.BELL

    # -- history search

    def _search(self, key: Key) -> Act:
        name, query = key.name, self._query or ""
        if name == "c-r":
            self._look(query, (len(self.history) if self._found is None else self._found) - 1)
        elif name == "c-s":
            newer = range((self._found or 0) + 1, len(self.history))
            self._found = next((at for at in newer if query in self.history[at]), self._found)
        elif name == "text":
            self._look((query + key.data)[:QUERY_MAX], self._newest())
        elif name in ("backspace", "c-h"):
            end = len(query) - 1
            while end > 0 and cluster_width(query[end]) == 0:
                end -= 1
            self._query = query[: max(end, 0)]
            self._found = self.history.find(self._query, self._newest()) if self._query else None
        elif name in ("c-g", "c-c"):
            self._query = None
        else:
            self._accept()
            return Act.DRAW if name == "escape" else self.press(key)
        return Act.DRAW

    def _newest(self) -> int:
        return len(self.history) - 1

    def _look(self, query: str, newest: int) -> None:
        self._query = query
        found = self.history.find(query, newest) if query else None
        if found is not None:
            self._found = found

    def _accept(self) -> None:
        found, cursor = self._found, self.cursor
        text = self.text
        self._query = None
        if found is not None:
            self.buffer.set(text, cursor)

    # -- bindings

    def _enter(self) -> Act:
        text = self.buffer.text
        if len(text) * 4 > self.submit_limit:
            size = len(text.encode())
            if size > self.submit_limit:
                self.notice = f"the line has {size} bytes; the limit is {self.submit_limit}"
                return Act.BELL
        return Act.SUBMIT

    def _newline(self) -> Act:
        return self._insert("\n")

    def _interrupt(self) -> Act:
        if not self.buffer.text:
            return Act.INTERRUPT
        self.buffer.set("")
        self._fresh()
        return Act.DRAW

    def _delete_or_leave(self) -> Act:
        if not self.buffer.text:
            return Act.EOF
        return self._delete()

    def _delete(self) -> Act:
        buffer = self.buffer
        buffer.delete(buffer.cursor, buffer.right(buffer.cursor))
        return Act.DRAW

    def _backspace(self) -> Act:
        buffer = self.buffer
        buffer.delete(buffer.left(buffer.cursor), buffer.cursor)
        return Act.DRAW

    def _kill_line(self) -> Act:
        buffer = self.buffer
        end = buffer.line_end(buffer.cursor)
        if end == buffer.cursor:
            end = buffer.right(end)
        buffer.kill(buffer.cursor, end)
        return Act.DRAW

    def _yank(self) -> Act:
        return Act.DRAW if self.buffer.yank() else self._refuse()

    def _undo(self) -> Act:
        return Act.DRAW if self.buffer.undo() else Act.BELL

    def _transpose(self) -> Act:
        self.buffer.transpose()
        return Act.DRAW

    def _up(self) -> Act:
        return self._vertical(-1, self.history.up)

    def _down(self) -> Act:
        return self._vertical(1, self.history.down)

    def _vertical(self, lines: int, walk: Callable[[str], str | None]) -> Act:
        if self.buffer.move_lines(lines):
            return Act.DRAW
        text = walk(self.buffer.text)
        if text is None:
            return Act.BELL
        self.buffer.set(text)
        return Act.DRAW

    def _begin_search(self) -> Act:
        self._query, self._found = "", None
        return Act.DRAW


def _goes(place: Callable[[Buffer, int], int]) -> Callable[[Editor], Act]:
    """A binding that moves the cursor."""

    def binding(editor: Editor) -> Act:
        editor.buffer.move(place(editor.buffer, editor.buffer.cursor))
        return Act.DRAW

    return binding


def _kills(place: Callable[[Buffer, int], int]) -> Callable[[Editor], Act]:
    """A binding that kills from the cursor to a place."""

    def binding(editor: Editor) -> Act:
        buffer = editor.buffer
        buffer.kill(buffer.cursor, place(buffer, buffer.cursor))
        return Act.DRAW

    return binding


def _is(act: Act) -> Callable[[Editor], Act]:
    return lambda editor: act


_LEFT: Final = _goes(Buffer.left)
_RIGHT: Final = _goes(Buffer.right)
_START: Final = _goes(Buffer.line_start)
_END: Final = _goes(Buffer.line_end)
_WORD_LEFT: Final = _goes(Buffer.word_left)
_WORD_RIGHT: Final = _goes(Buffer.word_right)

_BINDINGS: Final[dict[str, Callable[[Editor], Act]]] = {
    "left": _LEFT, "c-b": _LEFT, "right": _RIGHT, "c-f": _RIGHT,
    "home": _START, "c-a": _START, "end": _END, "c-e": _END,
    "c-left": _WORD_LEFT, "m-left": _WORD_LEFT, "m-b": _WORD_LEFT,
    "c-right": _WORD_RIGHT, "m-right": _WORD_RIGHT, "m-f": _WORD_RIGHT,
    "up": Editor._up, "c-p": Editor._up, "down": Editor._down, "c-n": Editor._down,
    "backspace": Editor._backspace, "c-h": Editor._backspace,
    "delete": Editor._delete, "c-d": Editor._delete_or_leave,
    "c-w": _kills(Buffer.space_left), "m-backspace": _kills(Buffer.word_left),
    "m-d": _kills(Buffer.word_right), "c-delete": _kills(Buffer.word_right),
    "c-u": _kills(Buffer.line_start), "c-k": Editor._kill_line,
    "c-y": Editor._yank, "c-t": Editor._transpose, "c-_": Editor._undo,
    "enter": Editor._enter, "m-enter": Editor._newline, "s-enter": Editor._newline,
    "c-r": Editor._begin_search, "c-c": Editor._interrupt,
    "tab": _is(Act.COMPLETE), "c-l": _is(Act.REPAINT),
}  # fmt: skip
