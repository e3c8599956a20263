"""A person types, others speak, windows change: what is on the screen afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.terminal.screen import divide_rows
from sshwarma.terminal.text import Block, block, line
from support.terminal_person import Person

Sit = Callable[..., Person]

UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"


def test_typing_is_echoed_before_feed_returns(sit: Sit) -> None:
    alice = sit()
    alice.type("hello")
    assert alice.rows() == ["> hello"]
    assert alice.cursor() == (7, 0)


def test_key_at_the_end_of_the_line_writes_only_itself(sit: Sit) -> None:
    alice = sit()
    alice.type("hell")
    alice.written.clear()
    alice.type("o")
    assert alice.written == [b"o"]


def test_enter_submits_and_keeps_the_line_above(sit: Sit) -> None:
    alice = sit()
    alice.type("hello\r")
    assert alice.lines == ["hello"]
    assert alice.rows() == ["> hello", ">"]
    assert alice.cursor() == (2, 1)


def test_printed_line_keeps_the_draft(sit: Sit) -> None:
    alice = sit()
    alice.type("half a li")
    alice.type(LEFT * 2)
    alice.hear("bob: hi")
    assert alice.rows() == ["bob: hi", "> half a li"]
    assert alice.cursor() == (9, 1)
    alice.type("X")
    assert alice.rows() == ["bob: hi", "> half a Xli"]


def test_lines_printed_together_are_one_write(sit: Sit) -> None:
    alice = sit()
    alice.wait()
    alice.written.clear()
    for number in range(50):
        alice.terminal.print(block(f"line {number}"))
    alice.wait()
    assert len(alice.written) == 1
    assert alice.pyte_screen.everything()[:50] == [f"line {number}" for number in range(50)]


@pytest.mark.parametrize(
    ("text", "lefts", "cell"),
    [
        ("日本語", 1, 6),
        ("日本語", 3, 2),
        ("e\u0301a", 2, 2),
        ("e\u0301a", 1, 3),
        ("x👨‍👩‍👧‍👦y", 1, 5),
        ("x👨‍👩‍👧‍👦y", 2, 3),
        ("🇫🇷🇩🇪", 1, 4),
        ("👍🏽!", 1, 4),
        ("한국어", 2, 4),
    ],
)
def test_cursor_moves_by_whole_graphemes(sit: Sit, text: str, lefts: int, cell: int) -> None:
    alice = sit()
    alice.type(text)
    alice.type(LEFT * lefts)
    assert alice.cursor() == (cell, 0)
    alice.type("-")
    assert alice.cursor() == (cell + 1, 0)
    alice.type("\x7f\x7f" if lefts < len(text) else "\x7f")
    alice.hear("above")
    assert alice.rows()[0] == "above"


def test_backspace_deletes_a_whole_grapheme(sit: Sit) -> None:
    alice = sit()
    alice.type("a👨‍👩‍👧‍👦")
    alice.type("\x7f")
    assert alice.terminal.draft == "a"
    assert alice.rows() == ["> a"]


@pytest.mark.parametrize("size", range(34, 45))
def test_draft_wraps_at_the_edge(sit: Sit, size: int) -> None:
    alice = sit()
    for number in range(size):
        alice.type(str(number % 10))
    typed = "".join(str(number % 10) for number in range(size))
    assert "".join(row.strip("> ") for row in alice.rows()) == typed
    alice.hear("above")
    rows = alice.rows()
    assert rows[0] == "above"
    assert "".join(row.strip("> ") for row in rows[1:]) == typed
    assert all(len(row) < 40 for row in rows)
    alice.type("\x7f" * size)
    assert alice.rows() == ["above", ">"]


def test_wide_characters_never_straddle_the_edge(sit: Sit) -> None:
    alice = sit(columns=21)
    alice.type("日" * 30)
    rows = alice.rows()
    assert sum(row.count("日") for row in rows) == 30
    assert len(rows) == 4


def test_status_is_below_the_prompt_and_cut(sit: Sit) -> None:
    alice = sit(columns=20)
    alice.terminal.set_status(line("a status that is much too long"))
    alice.wait()
    assert alice.rows() == [">", "a status that is mu…"[:18] + "…"]
    alice.type("x")
    assert alice.cursor() == (3, 0)
    alice.terminal.set_status(None)
    alice.wait()
    assert alice.rows() == ["> x"]


def test_live_area_is_updated_in_place_and_then_scrolls(sit: Sit) -> None:
    alice = sit()
    alice.type("draft")
    for text in ("hel", "hello wor", "hello world"):
        alice.terminal.set_live_block("reply", block(text))
        alice.wait()
        assert alice.rows() == [text, "> draft"]
    alice.terminal.set_live_block("reply", None)
    alice.terminal.print(block("hello world!"))
    alice.wait()
    assert alice.rows() == ["hello world!", "> draft"]
    assert alice.cursor() == (7, 1)


def test_live_area_height_is_bounded(sit: Sit) -> None:
    alice = sit(rows=10)
    alice.terminal.set_live_block("reply", block(*[f"row {number}" for number in range(100)]))
    alice.wait()
    assert alice.rows() == [*[f"row {number}" for number in range(95, 100)], ">"]


def test_live_blocks_share_the_rows_evenly(sit: Sit) -> None:
    alice = sit(columns=20, rows=12)
    for name in ("a", "b"):
        rows = [f"{name}{number}" for number in range(9)]
        alice.terminal.set_live_block(name, block(*rows), line(f"{name} goes on and on"))
    alice.wait()
    assert alice.rows() == [
        "a7",
        "a8",
        "a goes on and on",
        "b7",
        "b8",
        "b goes on and on",
        ">",
    ]
    alice.terminal.set_live_block("a", block(), line("a thinks"))
    alice.wait()
    assert alice.rows() == ["a thinks", "b5", "b6", "b7", "b8", "b goes on and on", ">"]
    alice.terminal.set_live_block("a", None)
    alice.terminal.set_live_block("b", block("b"), line("b 3.2s, and more than fits"))
    alice.wait()
    assert alice.rows() == ["b", "b 3.2s, and more t…", ">"]


def test_more_live_blocks_than_rows_show_the_last_row_of_the_newest(sit: Sit) -> None:
    alice = sit(rows=6)
    for number in range(5):
        alice.terminal.set_live_block(f"{number}", block("text"), line(f"progress {number}"))
    alice.wait()
    assert alice.rows() == ["progress 2", "progress 3", "progress 4", ">"]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(0, 40))
def test_divide_rows_is_fair(needs: list[int], height: int) -> None:
    granted = divide_rows(needs, height)
    assert sum(granted) == min(height, sum(needs))
    assert all(share <= need for share, need in zip(granted, needs, strict=True))
    hungry = [share for share, need in zip(granted, needs, strict=True) if share < need]
    assert not hungry or max(granted) - min(hungry) <= 1


def test_paused_terminal_writes_nothing_and_reports_skipped_lines(sit: Sit) -> None:
    alice = sit(rows=20)
    alice.wait()
    alice.terminal.pause()
    alice.written.clear()
    for number in range(510):
        alice.terminal.print(block(f"line {number}", "and more"))
    alice.type("typed")
    alice.wait()
    assert alice.written == []
    alice.terminal.resume()
    alice.wait()
    seen = alice.pyte_screen.everything()
    at = seen.index("[20 lines skipped]")
    assert seen[at + 1] == "line 10"
    assert seen[-1:] == ["> typed"] or "> typed" in seen


def test_close_resets_the_terminal(sit: Sit) -> None:
    alice = sit()
    alice.terminal.set_status(line("status"))
    alice.type("half")
    alice.terminal.print(block("bye"))
    alice.terminal.close()
    assert alice.rows() == ["bye"]
    assert alice.cursor() == (0, 1)
    assert alice.bytes.endswith(b"\x1b[0m\x1b[?2004l\x1b[?25h\x1b[?7h")
    written = len(alice.written)
    alice.type("more\r")
    alice.hear("late")
    assert len(alice.written) == written


def test_every_frame_leaves_autowrap_on(sit: Sit) -> None:
    alice = sit()
    alice.type("x" * 50)
    alice.hear("above")
    alice.terminal.set_live_block("a", block("b"))
    alice.resize(30, 8)
    for written in alice.written:
        assert written.count(b"\x1b[?7l") == written.count(b"\x1b[?7h")
        if b"\x1b[?7l" in written:
            assert written.rindex(b"\x1b[?7l") < written.rindex(b"\x1b[?7h")


def test_rows_stay_correct_if_the_terminal_measures_differently(sit: Sit) -> None:
    """An emoji that takes eight cells there: its row suffers, the others do not."""
    alice = sit(measure=lambda cluster: 2 * len([c for c in cluster if c > "\U0001f000"]) or 1)
    family = "👨‍👩‍👧‍👦"
    alice.hear(family * 15, "below")
    alice.type(family * 15)
    alice.hear("next")
    rows = alice.rows()
    assert rows[1:3] == ["below", "next"]
    assert len(rows) == 4


def test_long_draft_shows_the_rows_around_the_cursor(sit: Sit) -> None:
    alice = sit(columns=30, rows=6)
    alice.type("x" * 1000 + "END")
    assert len(alice.rows()) == 5
    assert alice.rows()[-1].endswith("END")
    alice.type("\x01")
    assert alice.rows()[0].startswith("> x")
    assert alice.cursor() == (2, 0)


def test_ctrl_l_repaints_the_screen(sit: Sit) -> None:
    alice = sit()
    alice.hear("above")
    alice.stream.feed(b"\x1b[2J\x1b[5;5Hrubbish")
    alice.type("\x0c")
    assert alice.rows() == ["above", ">"]


def test_theme_change_repaints_the_screen(sit: Sit) -> None:
    alice = sit()
    alice.hear(line(("error", "red")))
    assert alice.pyte_screen.buffer[0][0].fg != "default"
    alice.terminal.configure(theme="mono")
    alice.wait()
    assert alice.pyte_screen.buffer[0][0].fg == "default"


def test_terminal_can_be_closed_from_a_callback(sit: Sit) -> None:
    alice = sit()
    alice.on_line = lambda text: alice.terminal.close()
    alice.type("quit\rmore\r")
    assert alice.rows() == ["> quit"]
    assert alice.cursor() == (0, 1)


def test_bell_rings_once_per_frame(sit: Sit) -> None:
    alice = sit()
    alice.wait()
    alice.written.clear()
    for _ in range(5):
        alice.terminal.bell()
    alice.wait()
    assert alice.bytes.count(b"\x07") == 1


def test_block_is_rendered_once_for_all_screens(sit: Sit) -> None:
    people = [sit() for _ in range(5)]
    heard: Block = block("to all")
    for person in people:
        person.terminal.print(heard)
    people[0].wait()
    assert all(person.rows()[0] == "to all" for person in people)
    assert len(heard.renderings) == 1


def test_vi_keys_reach_the_editor(sit: Sit) -> None:
    alice = sit(vi=True)
    alice.type("one two")
    alice.type("\x1b")
    alice.wait(0.06)
    alice.type("0dw")
    assert alice.rows() == ["> two"]
    alice.terminal.configure(vi=False)
    alice.type("x")
    assert alice.terminal.draft == "xtwo"


def test_immediate_answer_shows_no_old_draft(sit: Sit) -> None:
    alice = sit()

    def answer(text: str) -> None:
        alice.terminal.print(block("answer"))
        alice.terminal.frame()
        assert alice.rows() == ["> hello", "answer", ">"]

    alice.on_line = answer
    alice.type("hello\r")
    assert alice.rows() == ["> hello", "answer", ">"]


def test_ascii_after_a_character_of_disputed_width_cannot_wrap(sit: Sit) -> None:
    alice = sit(columns=24, measure=lambda cluster: 4 if cluster > "\U0001f000" else 1)
    alice.type("👍" * 5)
    for char in "abcdefgh":
        alice.type(char)
    alice.hear("above")
    assert alice.rows()[0] == "above"
    assert len(alice.rows()) == 2


def test_output_fits_forty_columns(sit: Sit) -> None:
    alice = sit(columns=40, rows=12)
    alice.terminal.set_prompt(("room", "a room with a very long name indeed, really> "))
    alice.terminal.set_status(line("x" * 100))
    alice.terminal.set_live_block("a", block("y" * 100))
    alice.type("typed text that is longer than a row")
    alice.wait()
    assert all(len(row) <= 40 for row in alice.rows())
    assert alice.rows()[-1].startswith("x" * 38)
    assert "longer than a row" in " ".join(row.strip() for row in alice.rows())


def test_close_leaves_no_timer(sit: Sit) -> None:
    alice = sit()
    alice.type("\x1b[200~open")
    alice.terminal.close()
    alice.wait(2)
    assert not alice.loop._scheduled  # type: ignore[attr-defined]
