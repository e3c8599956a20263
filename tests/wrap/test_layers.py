"""The order and the size of layers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sshwarma.wrap.layers import STABILITIES, ContextMessage, Layer, cut_to_budget, sort_layers
from sshwarma.wrap.tokens import estimate_tokens

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
def test_layers_are_sorted_by_side_and_stability(
    made: list[Layer],
) -> None:
    placed = sort_layers(made)
    ranks = [(SIDES.index(layer.side), STABILITIES.index(layer.stability)) for layer in placed]
    assert ranks == sorted(ranks)
    assert sorted(map(repr, placed)) == sorted(map(repr, made))


@given(st.text(max_size=400), st.integers(1, 50))
def test_layer_over_its_budget_is_cut_and_says_so(text: str, budget: int) -> None:
    layer = cut_to_budget(Layer("x", "room", "system", text=text, budget=budget))
    if layer.text == text:
        assert layer.tokens <= budget
        assert not layer.note
    else:
        kept, _, mark = layer.text.rpartition("\n")
        assert text.startswith(kept)
        assert estimate_tokens(kept) <= budget + 1
        assert "more characters" in mark
        layer.text.encode()


def test_log_layer_is_not_cut_by_a_budget() -> None:
    layer = Layer(
        "log", "log", "conversation", lines=(ContextMessage("user", "x" * 900),), budget=1
    )
    assert cut_to_budget(layer) is layer
