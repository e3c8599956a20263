"""Typing at a terminal: pastes, history, keys that end a line, and line limits."""

from __future__ import annotations

from collections.abc import Callable

from support.terminal_person import Person

Sit = Callable[..., Person]

UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"


def test_paste_with_newlines_is_one_message(sit: Sit) -> None:
    alice = sit()
    alice.type("\x1b[200~one\r\ntwo\rthree\x1b[201~")
    assert alice.lines == []
    assert alice.rows() == ["> one", "  two", "  three"]
    alice.type("\r")
    assert alice.lines == ["one\ntwo\nthree"]


def test_paste_in_pieces_is_joined(sit: Sit) -> None:
    alice = sit()
    for byte in b"\x1b[200~a\r\nb\xe6\x97\xa5\x1b[201~!":
        alice.type(bytes([byte]))
    assert alice.terminal.draft == "a\nb日!"


def test_unclosed_paste_is_taken_after_a_timeout(sit: Sit) -> None:
    alice = sit()
    alice.type("\x1b[200~stuck\rhere")
    assert alice.terminal.draft == ""
    alice.wait(1.1)
    assert alice.terminal.draft == "stuck\nhere"
    alice.type("\r")
    assert alice.lines == ["stuck\nhere"]


def test_control_characters_in_a_paste_are_removed(sit: Sit) -> None:
    alice = sit()
    alice.type("\x1b[200~a\x1b[31mb\x07\x00c\td\x1b[201~")
    assert alice.terminal.draft == "a[31mbc    d"


def test_alt_enter_inserts_a_newline(sit: Sit) -> None:
    alice = sit()
    alice.type("one\x1b\rtwo\r")
    assert alice.lines == ["one\ntwo"]


def test_history_recall_matches_the_typed_prefix(sit: Sit) -> None:
    alice = sit(history=["/look", "hello", "/join holler"])
    alice.type("/")
    alice.type(UP)
    assert alice.terminal.draft == "/join holler"
    alice.type(UP)
    assert alice.terminal.draft == "/look"
    alice.type(DOWN + DOWN)
    assert alice.terminal.draft == "/"


def test_submitted_lines_join_the_history(sit: Sit) -> None:
    shared = ("old",)
    alice = sit(history=shared)
    alice.type("new\r")
    alice.type(UP + UP)
    assert alice.terminal.draft == "old"
    assert list(alice.terminal.history.added_lines) == ["new"]


def test_ctrl_r_searches_the_history(sit: Sit) -> None:
    alice = sit(history=["tell bob about fish", "look", "tell ann about birds"])
    alice.type("\x12tell")
    assert alice.rows() == ["(search) tell: tell ann about birds"]
    alice.type("\x12")
    assert alice.rows() == ["(search) tell: tell bob about fish"]
    alice.type("\r")
    assert alice.lines == ["tell bob about fish"]


def test_ctrl_g_cancels_the_search_and_restores_the_draft(sit: Sit) -> None:
    alice = sit(history=["abc"])
    alice.type("draft\x12a")
    alice.type("\x07")
    assert alice.rows() == ["> draft"]


def test_ctrl_c_clears_then_interrupts(sit: Sit) -> None:
    alice = sit()
    alice.type("hello")
    alice.type("\x03")
    assert (alice.rows(), alice.interrupts) == ([">"], 0)
    alice.type("\x03")
    assert alice.interrupts == 1


def test_ctrl_d_on_an_empty_line_ends_the_input(sit: Sit) -> None:
    alice = sit()
    alice.type("x\x01\x04")
    assert (alice.terminal.draft, alice.eofs) == ("", 0)
    alice.type("\x04")
    assert alice.eofs == 1


def test_line_over_the_limit_is_refused_and_kept(sit: Sit) -> None:
    alice = sit()
    alice.terminal.submit_limit = 10
    alice.type("eleven chars")
    alice.type("\r")
    alice.wait()
    assert alice.lines == []
    assert alice.rows() == ["the line has 12 bytes; the limit is 10", "> eleven chars"]
    alice.type("\x7f\x7f\r")
    assert alice.lines == ["eleven cha"]


def test_endless_input_is_refused_once(sit: Sit) -> None:
    alice = sit()
    for _ in range(100):
        alice.type("x" * 4096)
    alice.wait()
    assert len(alice.terminal.draft) == 64 * 1024
    received = [row for row in alice.pyte_screen.everything() if "the line is too long" in row]
    assert len(received) == 1


def test_two_lines_in_one_packet_are_both_submitted(sit: Sit) -> None:
    alice = sit()
    alice.type("one\rtwo\r\nthr")
    assert alice.lines == ["one", "two"]
    assert alice.rows() == ["> one", "> two", "> thr"]


def test_line_without_echo_is_not_shown(sit: Sit) -> None:
    alice = sit(echo=lambda text: text.startswith("/"))
    alice.type("said\r/look\r")
    assert alice.rows() == ["> /look", ">"]
