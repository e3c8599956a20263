"""Random keys, lines and resizes: the glass shows what a simple model says."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sshwarma.terminal.layout import lay_out_input
from sshwarma.terminal.text import block, line
from support.hostile_text import is_harmless
from support.terminal_person import ManualClockLoop, Person

LOOP = ManualClockLoop()

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("type"),
            st.sampled_from(
                [
                    "a",
                    "bcd efg",
                    "日本",
                    "é",
                    "👍🏽",
                    "x" * 37,
                    "\x1b[D",
                    "\x1b[C",
                    "\x7f",
                    "\x01",
                    "\x05",
                    "\x1b\r",
                    "\r",
                    "\x17",
                    "\x0c",
                    "\x1b[A",
                    "\x1b[B",
                    "\x1b[200~p\nq\x1b[201~",
                ]
            ),
        ),
        st.tuples(st.just("hear"), st.sampled_from(["bob: hi", "日本語 " * 9, "word " * 20, ""])),
        st.tuples(st.just("live"), st.sampled_from(["", "one", "one two " * 12])),
        st.tuples(st.just("status"), st.sampled_from(["", "room", "日" * 50])),
    ),
    max_size=30,
)


def expected(alice: Person, columns: int, rows: int) -> tuple[list[str], tuple[int, int]]:
    """The rows of the prompt and the draft, and where in them the cursor is."""
    terminal = alice.terminal
    buffer = terminal._editor.buffer
    placed = lay_out_input(buffer.text, buffer.cursor, columns - 1, 2, True)
    lines = ["> " + placed.rows[0], *placed.rows[1:]]
    return [text.rstrip() for text in lines], (placed.column, placed.row)


def check(alice: Person, columns: int, rows: int) -> None:
    shown = alice.pyte_screen.rows()
    lines, (column, row) = expected(alice, columns, rows)
    assert alice.pyte_screen.cursor.x == column
    if len(lines) > rows // 2 - 1:
        return  # only a window of so long a draft is on screen
    top = alice.pyte_screen.cursor.y - row
    assert shown[top : top + len(lines)] == lines
    below = shown[top + len(lines) :]
    status = alice.terminal._output.view.status
    assert bool(below and below[0]) == (status is not None)
    assert not any(below[1:])


@settings(max_examples=80, deadline=None)
@given(STEPS, st.sampled_from([(20, 12), (40, 16), (80, 24)]))
def test_screen_matches_a_simple_model(steps: list[tuple[str, str]], size: tuple[int, int]) -> None:
    columns, rows = size
    alice = Person(LOOP, columns=columns, rows=rows)
    heard: list[str] = []
    for kind, what in steps:
        if kind == "type":
            alice.type(what)
        elif kind == "hear":
            alice.hear(what)
            heard.append(what)
        elif kind == "live":
            alice.terminal.set_live_block("live", block(what) if what else None)
            alice.wait()
        else:
            alice.terminal.set_status(line(what) if what else None)
            alice.wait()
        check(alice, columns, rows)
    everything = alice.pyte_screen.everything()
    for text in heard:
        if text == "bob: hi":
            assert "bob: hi" in everything
    assert is_harmless(alice.bytes)
    alice.terminal.close()
    assert alice.pyte_screen.cursor.x == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.binary(max_size=30), st.text(max_size=10).map(str.encode)), max_size=10),
    st.booleans(),
)
def test_any_input_bytes_are_handled_and_escaped(packets: list[bytes], is_plain: bool) -> None:
    alice = Person(LOOP, plain=is_plain, vi=is_plain)
    for packet in packets:
        alice.type(packet)
        alice.wait()
    alice.wait(2)
    alice.terminal.close()
    written = alice.bytes
    assert not is_plain or b"\x1b" not in written
    assert is_harmless(written.replace(b"\b", b"") if is_plain else written)


def test_flood_of_keys_is_bounded_and_reported_once() -> None:
    alice = Person(LOOP)
    keys = random.Random(7)
    alice.type(b"".join(keys.choice([b"\x02", b"\x06", b"x\x01"]) for _ in range(20_000)))
    alice.wait()
    received = [row for row in alice.pyte_screen.everything() if "too much input at once" in row]
    assert len(received) == 1
    alice.wait(1)
    alice.type("\x05!")
    assert alice.terminal.draft.endswith("!")
