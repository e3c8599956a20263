"""Tab: what is proposed, inserted, chosen and dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from sshwarma.terminal.completion import Candidate, CandidateMenu, common_prefix
from support.terminal_person import Person

Sit = Callable[..., Person]
WORDS = ("join", "journal", "look")


async def words(text: str, cursor: int) -> Sequence[Candidate]:
    start = text.rfind(" ", 0, cursor) + 1
    typed = text[start:cursor]
    return [
        Candidate(word, note=f"to {word}", start=start, space=True)
        for word in WORDS
        if word.startswith(typed)
    ]


def test_only_candidate_is_inserted_with_a_space(sit: Sit) -> None:
    alice = sit(complete=words)
    alice.type("lo\t")
    alice.wait()
    assert alice.terminal.draft == "look "
    assert alice.rows() == ["> look"]


def test_common_prefix_is_inserted_and_a_menu_opens(sit: Sit) -> None:
    alice = sit(complete=words)
    alice.type("j\t")
    alice.wait()
    assert alice.rows() == ["> jo", "  join     to join", "  journal  to journal"]
    assert alice.cursor() == (4, 0)


def test_tab_and_arrows_cycle_and_enter_accepts(sit: Sit) -> None:
    alice = sit(complete=words)
    alice.type("j\t")
    alice.wait()
    for keys, draft in [
        ("\t", "join"),
        ("\t", "journal"),
        ("\x1b[B", "join"),
        ("\x1b[Z", "journal"),
        ("\x1b[A", "join"),
    ]:
        alice.type(keys)
        assert alice.terminal.draft == draft
    assert alice.rows()[1].startswith("> join")
    alice.type("\r")
    assert alice.lines == []
    assert alice.terminal.draft == "join "
    assert alice.rows() == ["> join"]


def test_escape_restores_the_line(sit: Sit) -> None:
    alice = sit(complete=words)
    alice.type("j\t")
    alice.wait()
    alice.type("\t\t")
    alice.type("\x1b")
    alice.wait(0.06)
    assert alice.terminal.draft == "jo"
    assert alice.rows() == ["> jo"]


def test_typing_closes_the_menu(sit: Sit) -> None:
    alice = sit(complete=words)
    alice.type("j\t")
    alice.wait()
    alice.type("i")
    assert alice.rows() == ["> joi"]


def test_candidates_for_an_outdated_line_are_dropped(sit: Sit) -> None:
    asked = asyncio.Event()

    async def slow(text: str, cursor: int) -> Sequence[Candidate]:
        await asked.wait()
        return [Candidate("stale")]

    alice = sit(complete=slow)
    alice.type("a\t")
    alice.wait()
    alice.type("b")
    asked.set()
    alice.wait()
    assert alice.terminal.draft == "ab"


def test_slow_completer_blocks_no_key(sit: Sit) -> None:
    async def never(text: str, cursor: int) -> Sequence[Candidate]:
        await asyncio.Event().wait()
        return ()

    alice = sit(complete=never)
    alice.type("a\tb\tc")
    alice.wait()
    assert alice.rows() == ["> abc"]
    alice.terminal.close()
    alice.wait()


def test_failing_completer_is_reported(sit: Sit) -> None:
    async def broken(text: str, cursor: int) -> Sequence[Candidate]:
        raise LookupError("no such thing")

    alice = sit(complete=broken)
    reported: list[object] = []
    alice.loop.set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    alice.type("a\t")
    alice.wait()
    alice.type("b")
    assert alice.rows() == ["> ab"]
    assert [type(error) for error in reported] == [LookupError]


def test_no_candidates_rings_the_bell(sit: Sit) -> None:
    alice = sit(complete=words)
    alice.type("zzz\t")
    alice.wait()
    assert b"\x07" in alice.bytes


def test_long_menu_scrolls_and_keeps_the_prompt_visible(sit: Sit) -> None:
    async def many(text: str, cursor: int) -> Sequence[Candidate]:
        return [Candidate(f"item{number:03}") for number in range(100)]

    alice = sit(complete=many, rows=6)
    alice.type("\t")
    alice.wait()
    alice.type("\t" * 50)
    assert alice.rows()[0] == "> item049"
    assert any(row.startswith("> item049") for row in alice.rows()[1:])
    assert len(alice.rows()) <= 6


def test_printed_line_leaves_the_menu_open(sit: Sit) -> None:
    alice = sit(complete=words)
    alice.type("j\t")
    alice.wait()
    alice.hear("bob: hi")
    assert alice.rows() == ["bob: hi", "> jo", "  join     to join", "  journal  to journal"]


def test_completion_inside_a_line_keeps_the_rest(sit: Sit) -> None:
    alice = sit(complete=words)
    alice.type("lo x\x1b[D\x1b[D\t")
    alice.wait()
    assert alice.terminal.draft == "look  x"


def test_common_prefix_ends_at_a_grapheme_boundary() -> None:
    assert common_prefix([Candidate("e\u0301a"), Candidate("e\u0300a")]) == ""
    assert common_prefix([Candidate("abc"), Candidate("abd")]) == "ab"
    assert common_prefix([Candidate("abc"), Candidate("abd", start=1)]) == ""


def test_menu_shows_at_most_eight_lines() -> None:
    menu = CandidateMenu([Candidate(str(number)) for number in range(50)], "", 0)
    menu.select_next(-1)
    lines = menu.lines(20)
    assert len(lines) == 8
    assert "49" in lines[-1].plain()
    assert "(50 of 50)" in lines[-1].plain()
