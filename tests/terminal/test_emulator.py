"""The terminal emulator of the tests draws as pyte itself does."""

from __future__ import annotations

import pyte
from hypothesis import given
from hypothesis import strategies as st

from support.resizable_screen import ResizableScreen

PIECES = st.sampled_from(
    [
        *("plain text ", "x" * 25, "日本", "e\u0301", "\r\n", "\n", "\r", "\b", "\t", "\x7f"),
        *(
            "\x1b[1;31m",
            "\x1b[0m",
            "\x1b[3;18H",
            "\x1b[K",
            "\x1b[J",
            "\x1b[2J",
            "\x1b[2;4r",
            "\x1bM",
        ),
        *("\x1b[4h", "\x1b[4l", "\x1b[?7l", "\x1b[?7h", "\x1b[?25l", "\x1b[?25h"),
        *("\x1b(0", "\x1b(B", "\x0e", "\x0f"),
    ]
)


@given(st.lists(PIECES, max_size=40))
def test_emulator_draws_as_pyte_does(pieces: list[str]) -> None:
    ours, theirs = ResizableScreen(20, 6), pyte.HistoryScreen(20, 6)
    for piece in pieces:
        for screen in (ours, theirs):
            pyte.Stream(screen).feed(piece)
        assert (ours.cursor.x, ours.cursor.y) == (theirs.cursor.x, theirs.cursor.y)
    assert ours.display == theirs.display
    for y, row in enumerate(ours.display):
        drawn = [x for x in range(20) if row[x : x + 1].strip()]
        assert [ours.buffer[y][x] for x in drawn] == [theirs.buffer[y][x] for x in drawn]
    assert len(ours.history.top) == len(theirs.history.top)
    assert ours.cursor.hidden == theirs.cursor.hidden
    assert ours.mode == theirs.mode
