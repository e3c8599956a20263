"""The plain screen: for screen readers and dumb terminals."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from sshwarma.terminal.output import PROMPT_DELAY_SECONDS
from sshwarma.terminal.text import block, line
from support.terminal_person import ManualClockLoop, Person

Sit = Callable[..., Person]
LEFT, RIGHT = "\x1b[D", "\x1b[C"


def test_plain_screen_writes_no_escape_sequence(sit: Sit) -> None:
    alice = sit(plain=True)
    alice.terminal.set_status(line("status"))
    alice.terminal.set_live_block("reply", block("hel"))
    alice.hear(line(("error", "red")))
    alice.type("hello" + LEFT * 3 + "x\x7f\r")
    alice.resize(60, 20)
    alice.type("\x12h\x07\x0c")
    alice.terminal.close()
    assert b"\x1b" not in alice.bytes
    assert alice.lines == ["hello"]


def test_line_printed_while_typing_is_on_its_own_row(sit: Sit) -> None:
    alice = sit(plain=True)
    alice.type("half")
    alice.hear("bob: hi")
    assert alice.rows() == ["> half", "bob: hi", "> half"]
    alice.type("!\r")
    alice.hear("alice: half!")
    assert alice.rows() == ["> half", "bob: hi", "> half!", "alice: half!", ">"]


def test_prompt_waits_briefly_for_the_answer(sit: Sit) -> None:
    alice = sit(plain=True)
    alice.type("/look\r")
    alice.wait()
    assert alice.rows() == ["> /look"]
    alice.hear("a room")
    assert alice.rows() == ["> /look", "a room", ">"]
    alice.type("/sleep\r")
    alice.wait(PROMPT_DELAY_SECONDS)
    assert alice.rows()[-2:] == ["> /sleep", ">"]
    alice.hear("slept")
    assert alice.rows()[-3:] == [">", "slept", ">"]
    alice.type("/slow\rx")
    assert alice.rows()[-2:] == ["> /slow", "> x"], "who types on is not kept waiting"
    alice.type("\x7f\r")
    assert alice.rows()[-2:] == [">", ">"], "nothing was asked"


def test_typing_writes_only_new_characters(sit: Sit) -> None:
    alice = sit(plain=True)
    alice.type("hell")
    alice.written.clear()
    alice.type("o")
    alice.type("\x7f")
    assert alice.written == [b"o", b"\b \b"]


def test_editing_in_the_middle_redraws_the_line(sit: Sit) -> None:
    alice = sit(plain=True)
    alice.type("日本語" + LEFT + "x")
    assert alice.rows() == ["> 日本x語"]
    assert alice.cursor() == (7, 0)
    alice.type("\x7f\x7f")
    assert alice.rows() == ["> 日語"]
    assert alice.cursor() == (4, 0)


def test_plain_mode_can_be_switched_on_and_off(sit: Sit) -> None:
    alice = sit()
    alice.type("draft")
    alice.terminal.configure(plain=True)
    alice.wait()
    assert alice.rows() == ["> draft"]
    alice.written.clear()
    alice.type("!")
    alice.hear("bob")
    assert b"\x1b" not in alice.bytes
    alice.terminal.configure(plain=False)
    alice.wait()
    assert alice.rows()[-1] == "> draft!"
    assert b"\x1b[?2004h" in alice.bytes


def test_candidates_are_printed_as_a_line(sit: Sit) -> None:
    from .test_completion import words

    alice = sit(plain=True, complete=words)
    alice.type("j\t")
    alice.wait()
    assert alice.rows()[-2:] == ["join  journal", "> jo"]


KEYS = st.sampled_from(
    ["a", "bc", "日", "é", LEFT, RIGHT, "\x7f", "\x01", "\x05", "\x0b", "\x17", "\x19", "\x14"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(KEYS, max_size=25))
def test_last_row_is_always_the_draft(keys: list[str]) -> None:
    loop = ManualClockLoop()
    alice = Person(loop, columns=120, plain=True)
    for key in keys:
        alice.type(key)
        assert alice.rows()[-1] == ("> " + alice.terminal.draft).rstrip()
    loop.close()
