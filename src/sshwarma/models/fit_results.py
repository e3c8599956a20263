"""Tool results of a turn, cut to the share of the context that its model gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sshwarma.common.limits import MAX_OLD_RESULT_CHARACTERS, MIN_RESULT_CHARACTERS
from sshwarma.models.backend import CompletedCall, TurnStep
from sshwarma.wrap.tokens import CHARACTERS_PER_TOKEN
from sshwarma.wrap.transcript import clip_text

CUT_TO_FRACTION: Final = 0.5
"""Fraction of the budget that is left after a cut. A cut changes what the provider has in its
cache, so it is large, and the next ones are rare."""


def count_result_characters(tokens: int) -> int:
    """Return about how many characters a budget of tokens holds."""
    return max(MIN_RESULT_CHARACTERS, int(tokens * CHARACTERS_PER_TOKEN))


def fit_results(steps: Sequence[TurnStep], budget: int) -> tuple[TurnStep, ...]:
    """Return the steps with at most about `budget` characters of results.

    Nothing is cut while they fit. Then old results are cut to MAX_OLD_RESULT_CHARACTERS, the oldest
    first, until CUT_TO_FRACTION of the budget is left. Results of the last step are cut only if
    they alone do not fit: the long ones, to the same length.
    """
    if not steps or _count_characters(steps) <= budget:
        return tuple(steps)
    *old_steps, last_step = steps
    cut_last = _cut_step(last_step, _fair_length([len(one.text) for one in last_step.done], budget))
    excess = _count_characters([*old_steps, cut_last]) - int(budget * CUT_TO_FRACTION)
    fitted: list[TurnStep] = []
    for step in old_steps:
        cut = _cut_step(step, MAX_OLD_RESULT_CHARACTERS) if excess > 0 else step
        excess -= _count_characters([step]) - _count_characters([cut])
        fitted.append(cut)
    return (*fitted, cut_last)


def _count_characters(steps: Sequence[TurnStep]) -> int:
    return sum(len(result.text) for step in steps for result in step.done)


def _fair_length(lengths: Sequence[int], budget: int) -> int:
    """Return the greatest length such that texts cut to it fit the budget together."""
    left = budget
    for place, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - place)
        if length > share:
            return max(share, MIN_RESULT_CHARACTERS)
        left -= length
    return max(lengths, default=0)


def _cut_step(step: TurnStep, length: int) -> TurnStep:
    return replace(step, done=tuple(_cut_result(result, length) for result in step.done))


def _cut_result(result: CompletedCall, length: int) -> CompletedCall:
    return replace(result, text=clip_text(result.text, length, result.seq))
