"""A block that is said to be on the screen is, from its first row to its last."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sshwarma.terminal.text import block, line
from support.terminal_person import ManualClockLoop, Person

LOOP = ManualClockLoop()

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("print"), st.integers(1, 12)),
        st.tuples(st.just("live"), st.integers(0, 8)),
        st.tuples(st.just("status"), st.integers(0, 1)),
        st.tuples(st.just("draft"), st.integers(0, 60)),
        st.tuples(st.just("repaint"), st.just(0)),
        st.tuples(st.just("columns"), st.integers(20, 60)),
        st.tuples(st.just("rows"), st.integers(5, 20)),
        st.tuples(st.just("again"), st.just(0)),
    ),
    max_size=10,
)


def take_step(alice: Person, step: str, count: int) -> None:
    """Do what another person, a model or the person does."""
    screen = alice.pyte_screen
    match step:
        case "print":
            alice.hear(*(f"other {number}" for number in range(count)))
        case "live":
            live = block(*(f"live {number}" for number in range(count))) if count else None
            alice.terminal.set_live_block("one", live)
        case "status":
            alice.terminal.set_status(line("status") if count else None)
        case "draft":
            alice.terminal.prefill("x" * count)
        case "repaint":
            alice.type("\x0c")
        case "columns":
            alice.resize(count, screen.lines)
        case "rows":
            alice.resize(screen.columns, count)
    alice.wait()


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 12), STEPS, st.booleans())
def test_block_that_is_said_to_be_on_the_screen_is(
    height: int, steps: list[tuple[str, int]], plain: bool
) -> None:
    alice = Person(LOOP, columns=40, rows=12, plain=plain)
    question = block(*(f"question {number}" for number in range(height)))
    for step, count in [("again", 0), *steps]:
        if step == "again":
            alice.terminal.print(question)
        take_step(alice, step, count)
        shown = alice.pyte_screen.rows()
        if alice.terminal.shows_all_of(question):
            assert all(f"question {number}" in shown for number in range(height)), shown


def test_printed_block_that_fits_is_on_the_screen_until_it_scrolls_away() -> None:
    alice = Person(LOOP, columns=40, rows=12)
    fits, longer = block(*["row"] * 11), block(*["row"] * 12)
    assert alice.terminal.has_room_for(fits) and not alice.terminal.has_room_for(longer)
    for printed in (fits, longer, fits):
        alice.terminal.print(printed)
        alice.wait()
        assert alice.terminal.shows_all_of(printed) == (printed is fits)
    alice.hear("one more")
    assert not alice.terminal.shows_all_of(fits)
    assert alice.terminal.is_drawn_for_size(fits)


def test_block_is_of_another_size_after_a_size_that_came_back() -> None:
    alice = Person(LOOP, columns=40, rows=12)
    question = block("question")
    alice.terminal.print(question)
    alice.wait()
    alice.terminal.resize(40, 12)  # it was another size, which the server was not told
    assert not alice.terminal.is_drawn_for_size(question)
    alice.type("\x0c")
    alice.wait()
    assert alice.terminal.shows_all_of(question)
