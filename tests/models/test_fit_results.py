"""Tool results of a turn, cut to their share of the context."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sshwarma.models.backend import CompletedCall, ToolCall, TurnStep
from sshwarma.models.fit_results import fit_results


def test_old_results_of_a_long_turn_are_cut_in_large_steps() -> None:
    steps = tuple(
        TurnStep(
            "", (CompletedCall(ToolCall(str(n), "t", {}), str(n) * 5_000, is_error=False, seq=n),)
        )
        for n in range(1, 9)
    )
    assert fit_results(steps, 40_000) == steps
    fitted = fit_results(steps, 39_000)
    sent = [step.done[0].text for step in fitted]
    assert all(len(text) == 5_000 for text in sent[-3:])
    assert all(len(text) < 600 and "expand row" in text for text in sent[:-4])
    assert sum(map(len, sent)) <= 20_000 + 500
    # The next steps are appended to the very same messages.
    for _ in range(3):
        fitted += steps[-1:]
        assert fit_results(fitted, 39_000) == fitted


@given(
    st.lists(st.lists(st.integers(0, 9_000), min_size=1, max_size=8), max_size=8),
    st.integers(0, 30_000),
)
def test_results_fit_their_budget(lengths: list[list[int]], budget: int) -> None:
    steps = tuple(
        TurnStep(
            "",
            tuple(
                CompletedCall(ToolCall(str(n), "t", {}), "x" * length, is_error=False, seq=n)
                for n, length in enumerate(step)
            ),
        )
        for step in lengths
    )
    fitted = fit_results(steps, budget)
    count = sum(map(len, lengths))
    size = sum(len(result.text) for step in fitted for result in step.done)
    assert size <= budget + count * 600  # what is kept of each, with the hint how to read on
    assert [len(step.done) for step in fitted] == [len(step.done) for step in steps]
