"""The line editor: applies keys to a text. It has no screen and no I/O.

`Editor.press` takes a key and returns an EditorAction for its owner. Emacs keys always work; vi's
command mode is optional. Enter submits; Alt-Enter, or a newline in a paste, starts another line of
the same message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from sshwarma.common.limits import DEFAULT_LINE_BYTES, MAX_DRAFT_BYTES
from sshwarma.terminal.buffer import Buffer
from sshwarma.terminal.history import InputHistory
from sshwarma.terminal.keys import KeyPress
from sshwarma.terminal.vi import ViMode
from sshwarma.terminal.width import cluster_width

MAX_HISTORY_QUERY_CHARACTERS: Final = 200
"""Characters of a history search."""


class EditorAction(Enum):
    """The action that the editor's owner takes after a key."""

    NOTHING = "nothing"
    DRAW = "draw"  # the text or the cursor may have changed
    SUBMIT = "submit"  # `Editor.take_submitted` has the line
    INTERRUPT = "interrupt"
    EOF = "eof"
    COMPLETE = "complete"
    REPAINT = "repaint"
    BELL = "bell"


class Editor:
    """The line editor of one person.

    `notice` holds a refusal to show, until the owner clears it.
    """

    __slots__ = ("_found", "_query", "buffer", "history", "notice", "submit_limit", "vi")

    def __init__(self, history: Sequence[str] = (), *, vi: bool = False) -> None:
        self.buffer = Buffer()
        self.history = InputHistory(history)
        self.vi = ViMode() if vi else None
        self.notice = ""
        self.submit_limit = DEFAULT_LINE_BYTES
        self._query: str | None = None  # the query of a running history search (Ctrl-R)
        self._found: int | None = None

    @property
    def text(self) -> str:
        """The text shown at the prompt: the draft, or the line that a search found."""
        if self._query is None:
            return self.buffer.text
        return "" if self._found is None else self.history[self._found]

    @property
    def cursor(self) -> int:
        """The cursor's position in `text`."""
        if self._query is None:
            return self.buffer.cursor
        return max(0, self.text.find(self._query))

    @property
    def search_query(self) -> str | None:
        """The query of the running history search, or None."""
        return self._query

    def take_submitted(self) -> str:
        """Return the submitted line, add it to the history and start a new one."""
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

    def press(self, key: KeyPress) -> EditorAction:
        """Process one key."""
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

    def _emacs(self, name: str) -> EditorAction:
        binding = _BINDINGS.get(name)
        return binding(self) if binding else EditorAction.NOTHING

    def _vi(self, vi: ViMode, key: KeyPress) -> EditorAction:
        name = key.name
        if name == "escape":
            vi.escape(self.buffer)
            return EditorAction.DRAW
        if name == "text":
            return self._command(vi, key.data)
        if len(name) == 3 and name.startswith("m-"):
            # Escape and a letter in one packet; alt has no other meaning in vi.
            vi.escape(self.buffer)
            return self._command(vi, name[2])
        if not vi.insert and name == "backspace":
            name = "left"
        return self._emacs(name)

    def _command(self, vi: ViMode, text: str) -> EditorAction:
        for index, char in enumerate(text):
            if vi.insert:
                return self._insert(text[index:])
            pressed = vi.press(self.buffer, char)
            if pressed:
                self._emacs(pressed)
        return EditorAction.DRAW

    def _insert(self, text: str) -> EditorAction:
        return EditorAction.DRAW if self.buffer.insert(text, typed=True) else self._refuse()

    def _paste(self, key: KeyPress) -> EditorAction:
        if key.overflow or not self.buffer.insert(key.data):
            return self._refuse()
        if self.vi:
            self.vi.reset()
        return EditorAction.DRAW

    def _refuse(self) -> EditorAction:
        self.notice = f"the line is too long: the limit is {MAX_DRAFT_BYTES} bytes"
        return EditorAction.BELL

    # -- history search

    def _search(self, key: KeyPress) -> EditorAction:
        name, query = key.name, self._query or ""
        if name == "c-r":
            self._move_search(
                query, (len(self.history) if self._found is None else self._found) - 1
            )
        elif name == "c-s":
            newer = range((self._found or 0) + 1, len(self.history))
            self._found = next((at for at in newer if query in self.history[at]), self._found)
        elif name == "text":
            self._move_search((query + key.data)[:MAX_HISTORY_QUERY_CHARACTERS], self._newest())
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
            return EditorAction.DRAW if name == "escape" else self.press(key)
        return EditorAction.DRAW

    def _newest(self) -> int:
        return len(self.history) - 1

    def _move_search(self, query: str, newest: int) -> None:
        self._query = query
        match = self.history.find(query, newest) if query else None
        if match is not None:
            self._found = match

    def _accept(self) -> None:
        match, cursor = self._found, self.cursor
        text = self.text
        self._query = None
        if match is not None:
            self.buffer.set(text, cursor)

    # -- bindings

    def _enter(self) -> EditorAction:
        text = self.buffer.text
        if len(text) * 4 > self.submit_limit:
            size = len(text.encode())
            if size > self.submit_limit:
                self.notice = f"the line has {size} bytes; the limit is {self.submit_limit}"
                return EditorAction.BELL
        return EditorAction.SUBMIT

    def _take_line(self, text: str) -> EditorAction:
        """Take the line that a key stands for, unless something is typed.

        A line that ends with a blank is begun, to be completed; any other is submitted.
        """
        if self.buffer.text:
            self.notice = f"the key stands for {text.strip()}, and only where nothing is typed"
            return EditorAction.BELL
        self.prefill(text)
        return EditorAction.DRAW if text.endswith(" ") else EditorAction.SUBMIT

    def _newline(self) -> EditorAction:
        return self._insert("\n")

    def _interrupt(self) -> EditorAction:
        if not self.buffer.text:
            return EditorAction.INTERRUPT
        self.buffer.set("")
        self._fresh()
        return EditorAction.DRAW

    def _delete_or_leave(self) -> EditorAction:
        if not self.buffer.text:
            return EditorAction.EOF
        return self._delete()

    def _delete(self) -> EditorAction:
        buffer = self.buffer
        buffer.delete(buffer.cursor, buffer.right(buffer.cursor))
        return EditorAction.DRAW

    def _backspace(self) -> EditorAction:
        buffer = self.buffer
        buffer.delete(buffer.left(buffer.cursor), buffer.cursor)
        return EditorAction.DRAW

    def _kill_line(self) -> EditorAction:
        buffer = self.buffer
        end = buffer.line_end(buffer.cursor)
        if end == buffer.cursor:
            end = buffer.right(end)
        buffer.kill(buffer.cursor, end)
        return EditorAction.DRAW

    def _yank(self) -> EditorAction:
        return EditorAction.DRAW if self.buffer.yank() else self._refuse()

    def _undo(self) -> EditorAction:
        return EditorAction.DRAW if self.buffer.undo() else EditorAction.BELL

    def _transpose(self) -> EditorAction:
        self.buffer.transpose()
        return EditorAction.DRAW

    def _up(self) -> EditorAction:
        return self._vertical(-1, self.history.up)

    def _down(self) -> EditorAction:
        return self._vertical(1, self.history.down)

    def _vertical(self, lines: int, walk: Callable[[str], str | None]) -> EditorAction:
        if self.buffer.move_lines(lines):
            return EditorAction.DRAW
        text = walk(self.buffer.text)
        if text is None:
            return EditorAction.BELL
        self.buffer.set(text)
        return EditorAction.DRAW

    def _begin_search(self) -> EditorAction:
        self._query, self._found = "", None
        return EditorAction.DRAW


def _move_binding(place: Callable[[Buffer, int], int]) -> Callable[[Editor], EditorAction]:
    """Return a binding that moves the cursor."""

    def binding(editor: Editor) -> EditorAction:
        editor.buffer.move(place(editor.buffer, editor.buffer.cursor))
        return EditorAction.DRAW

    return binding


def _kill_binding(place: Callable[[Buffer, int], int]) -> Callable[[Editor], EditorAction]:
    """Return a binding that kills from the cursor to a position."""

    def binding(editor: Editor) -> EditorAction:
        buffer = editor.buffer
        buffer.kill(buffer.cursor, place(buffer, buffer.cursor))
        return EditorAction.DRAW

    return binding


def _act_binding(act: EditorAction) -> Callable[[Editor], EditorAction]:
    return lambda editor: act


def _line_binding(text: str) -> Callable[[Editor], EditorAction]:
    """Return a binding that takes a line as if it was typed."""
    return lambda editor: editor._take_line(text)


_LEFT: Final = _move_binding(Buffer.left)
_RIGHT: Final = _move_binding(Buffer.right)
_START: Final = _move_binding(Buffer.line_start)
_END: Final = _move_binding(Buffer.line_end)
_WORD_LEFT: Final = _move_binding(Buffer.word_left)
_WORD_RIGHT: Final = _move_binding(Buffer.word_right)

_BINDINGS: Final[dict[str, Callable[[Editor], EditorAction]]] = {
    "left": _LEFT, "c-b": _LEFT, "right": _RIGHT, "c-f": _RIGHT,
    "home": _START, "c-a": _START, "end": _END, "c-e": _END,
    "c-left": _WORD_LEFT, "m-left": _WORD_LEFT, "m-b": _WORD_LEFT,
    "c-right": _WORD_RIGHT, "m-right": _WORD_RIGHT, "m-f": _WORD_RIGHT,
    "up": Editor._up, "c-p": Editor._up, "down": Editor._down, "c-n": Editor._down,
    "backspace": Editor._backspace, "c-h": Editor._backspace,
    "delete": Editor._delete, "c-d": Editor._delete_or_leave,
    "c-w": _kill_binding(Buffer.space_left), "m-backspace": _kill_binding(Buffer.word_left),
    "m-d": _kill_binding(Buffer.word_right), "c-delete": _kill_binding(Buffer.word_right),
    "c-u": _kill_binding(Buffer.line_start), "c-k": Editor._kill_line,
    "c-y": Editor._yank, "c-t": Editor._transpose, "c-_": Editor._undo,
    "enter": Editor._enter, "m-enter": Editor._newline, "s-enter": Editor._newline,
    "c-r": Editor._begin_search, "c-c": Editor._interrupt,
    "f8": _line_binding("/allow"), "f9": _line_binding("/deny "),
    "tab": _act_binding(EditorAction.COMPLETE), "c-l": _act_binding(EditorAction.REPAINT),
}  # fmt: skip
