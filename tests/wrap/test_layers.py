"""The order and the size of layers, and the window of a log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sshwarma.world.events import Row
from sshwarma.wrap.layers import STABILITIES, Layer, Line, ordered, tokens, within_budget
from sshwarma.wrap.window import window

SIDES = ("system", "conversation")

layers = st.lists(
    st.builds(
        Layer,
        name=st.text("abc", min_size=1, max_size=3),
        stability=st.sampled_from(STABILITIES),
        side=st.sampled_from(SIDES),
        text=st.text(max_size=10),
    ),
    max_size=12,
)


@given(layers)
def test_the_stable_stands_before_the_volatile_whatever_the_order_it_came_in(
    made: list[Layer],
) -> None:
    placed = ordered(made)
    ranks = [(SIDES.index(layer.side), STABILITIES.index(layer.stability)) for layer in placed]
    assert ranks == sorted(ranks)
    assert sorted(map(repr, placed)) == sorted(map(repr, made))


@given(st.text(max_size=400), st.integers(1, 50))
def test_a_budget_is_kept_and_says_what_it_cut(text: str, budget: int) -> None:
    layer = within_budget(Layer("x", "room", "system", text=text, budget=budget))
    if layer.text == text:
        assert layer.tokens <= budget
        assert not layer.note
    else:
        kept, _, mark = layer.text.rpartition("\n")
        assert text.startswith(kept)
        assert tokens(kept) <= budget + 1
        assert "more characters" in mark
        layer.text.encode()


def test_a_log_is_not_cut_by_a_budget() -> None:
    layer = Layer("log", "log", "conversation", lines=(Line("user", "x" * 900),), budget=1)
    assert within_budget(layer) is layer


def _log(*turns: str) -> list[Row]:
    """Rows with those turns; `-` is talk that belongs to none."""
    return [
        Row(f"r{n}", "lobby", n + 1, "chat", str(n), "someone", 0, turn_id=None if t == "-" else t)
        for n, t in enumerate(turns)
    ]


def _seen(rows: list[Row], turns: int) -> str:
    return " ".join(row.content for row in window(rows, turns))


def test_a_window_holds_whole_turns_and_the_talk_they_adopted() -> None:
    rows = _log("a", "a", "-", "b", "b", "-", "-", "c", "c", "-")
    assert _seen(rows, 1) == "5 6 7 8 9"
    assert _seen(rows, 2) == "2 3 4 5 6 7 8 9"
    assert _seen(rows, 9) == _seen(rows, 0) == "0 1 2 3 4 5 6 7 8 9"


def test_no_window_is_the_talk_since_the_last_turn() -> None:
    assert _seen(_log("a", "-", "b", "-", "-"), -1) == "3 4"


def test_turns_that_run_side_by_side_are_whole_too() -> None:
    assert _seen(_log("a", "b", "a", "b"), 1) == "1 3"


def test_talk_without_any_turn_is_all_there() -> None:
    assert _seen(_log("-", "-"), 2) == "0 1"


@given(st.lists(st.sampled_from("abc-"), max_size=14), st.integers(1, 4))
def test_a_window_never_holds_half_a_turn(turns: list[str], size: int) -> None:
    rows = _log(*turns)
    kept = window(rows, size)
    ids = {row.turn_id for row in kept} - {None}
    assert len(ids) <= size
    assert [row for row in rows if row.turn_id in ids] == [row for row in kept if row.turn_id]
