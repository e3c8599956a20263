"""Resizes: nothing is printed twice, and the prompt stays in its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sshwarma.terminal.layout import lay_out_input
from sshwarma.terminal.text import block, line
from support.terminal_person import ManualClockLoop, Person

from .test_screen import check

Sit = Callable[..., Person]
LOOP = ManualClockLoop()

RESIZES = st.lists(
    st.one_of(
        st.tuples(st.just("size"), st.integers(20, 120), st.integers(5, 40)),
        st.tuples(st.just("hear"), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(RESIZES, st.sampled_from(["half a line", "a draft of several rows " * 6]))
def test_resizes_keep_each_line_and_the_draft_once(
    steps: list[tuple[str, int, int]], draft: str
) -> None:
    alice = Person(LOOP, columns=80, rows=24)
    alice.terminal.set_status(line("the status " * 20))
    alice.type(draft)
    heard: list[str] = []
    for kind, columns, rows in steps:
        if kind == "hear":
            heard.append(f"row-{len(heard)} " + "middling " * 3)
            alice.hear(heard[-1])
        elif len(lay_out_input(draft, 0, columns - 1, 2, True).rows) < rows - 2:
            alice.resize(columns, rows)
        else:
            continue  # rows of a draft higher than the screen scroll away with the text above
        check(alice, alice.pyte_screen.columns, alice.pyte_screen.lines)
    shown = " ".join("".join(alice.pyte_screen.everything()).split())
    for number in range(len(heard)):
        assert shown.count(f"row-{number} ") == 1
    assert shown.count(">") == 1
    assert shown.replace("-", " ").count("the status the") <= 20


@settings(max_examples=30, deadline=None)
@given(RESIZES)
def test_resizes_of_a_terminal_that_cuts_rows_keep_each_line_once(
    steps: list[tuple[str, int, int]],
) -> None:
    alice = Person(LOOP, columns=80, rows=24)
    alice.pyte_screen.wraps = False
    alice.type("half a line")
    heard = 0
    for kind, columns, rows in steps:
        if kind == "hear":
            alice.hear(f"row-{heard}:")
            heard += 1
        else:
            alice.resize(columns, rows)
        check(alice, alice.pyte_screen.columns, alice.pyte_screen.lines)
    everything = [row for row in alice.pyte_screen.everything() if row]
    assert everything == [*(f"row-{number}:" for number in range(heard)), "> half a line"]


@pytest.mark.parametrize("columns", [20, 30, 41, 79])
def test_resize_erases_wrapped_rows_of_a_live_answer(columns: int) -> None:
    alice = Person(LOOP, columns=80, rows=24)
    alice.hear("said before")
    alice.terminal.set_live_block("live", block("x" * 70, "y" * 50))
    alice.wait()
    alice.resize(columns, 24)
    alice.terminal.set_live_block("live", None)
    alice.wait()
    assert alice.rows() == ["said before", ">"]


def test_resize_leaves_printed_lines_to_the_terminal(sit: Sit) -> None:
    alice = sit(columns=60)
    alice.hear("the quick brown fox jumps over the lazy dog")
    alice.type("half")
    alice.resize(24, 10)
    assert alice.rows() == ["the quick brown fox jump", "s over the lazy dog", "> half"]
    alice.resize(60, 10)
    assert alice.rows() == ["the quick brown fox jumps over the lazy dog", "> half"]
    assert alice.cursor() == (6, 1)


def test_redraw_key_wraps_printed_lines_for_the_new_width(sit: Sit) -> None:
    alice = sit(columns=60)
    alice.hear("the quick brown fox jumps over the lazy dog")
    alice.resize(24, 10)
    alice.type("half\x0c")
    assert alice.rows() == ["the quick brown fox", "  jumps over the lazy", "  dog", "> half"]


@pytest.mark.parametrize("heard", [0, 50])
def test_redraw_never_erases_the_screen_from_its_corner(sit: Sit, heard: int) -> None:
    """tmux pushes the screen into its history when it is erased from there."""
    alice = sit()
    for number in range(heard):
        alice.hear(str(number))
    alice.written.clear()
    alice.type("\x0c")
    assert b"\x1b[2J" not in alice.bytes
    assert b"\x1b[H\x1b[J" not in alice.bytes


def test_resizes_are_painted_once_per_frame(sit: Sit) -> None:
    alice = sit()
    alice.wait()
    alice.written.clear()
    for width in range(30, 200):
        alice.terminal.resize(width, 20)
    alice.wait()
    assert len(alice.written) == 1


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (2**31 - 1, 2**31 - 1), (-5, 7)])
def test_absurd_sizes_are_clamped(sit: Sit, size: tuple[int, int]) -> None:
    alice = sit()
    alice.terminal.resize(*size)
    alice.wait()
    assert 20 <= alice.terminal.look.width <= 500
    assert 5 <= alice.terminal.rows <= 200
