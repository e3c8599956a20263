"""Tool results of a turn, cut to fit the context window with the whole request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from sshwarma.models.backend import CompletedCall, StepRequest, TurnStep
from sshwarma.models.offered_tools import make_model_reader
from sshwarma.models.request_size import count_request_tokens
from sshwarma.world.reader import Reader
from sshwarma.wrap.cut_marks import cut_text
from sshwarma.wrap.tokens import count_fitting_characters, estimate_tokens

CUT_TO_FRACTION: Final = 0.5
"""Fraction of the free tokens that results are cut to. A cut changes what the provider has in its
cache, so it is large, and the next ones are rare."""

OLD_RESULT_TOKENS: Final = (150, 40, 0)
"""Tokens of a result of an earlier step, tried in order when a new result has too little room."""

POSITION_TOKENS: Final = 10
"""Tokens of the positions between which to read on, in the mark at a cut: one for each digit."""


class ResultFitter:
    """Cuts the results of one turn, each from its original, so that all requests fit.

    A result that was cut stays as it is as long as possible: the next request then begins like the
    one before it.

    Attributes:
        sent_characters: of the results that no request had whole, the most that one had, by the
            number of the row.
    """

    def __init__(self) -> None:
        self.sent_characters: dict[int, int] = {}
        self._most_sent: dict[int, int] = {}  # characters, by the number of the row
        self._limits: list[int | None] = []  # by step, most tokens of each of its results
        self._sizes: list[tuple[int, ...]] = []  # by step, tokens of its results that can be cut

    def fit(self, request: StepRequest, budget: int) -> StepRequest:
        """Return a request of at most about `budget` tokens, with its results cut.

        Args:
            request: The request, with all results as the tools returned them. Its steps are those
                of the request before it, and more.
            budget: Tokens of the whole request.
        """
        if not request.steps:
            return request
        reader = make_model_reader(request.tools)
        for step in request.steps[len(self._limits) :]:
            self._limits.append(None)
            self._sizes.append(tuple(_count_cuttable(one, reader) for one in step.done))
        nothing = (0,) * len(request.steps)
        bare = _cut_steps(request.steps, self._count_shown(request.steps, nothing), reader)
        free = budget - count_request_tokens(replace(request, steps=bare))
        self._choose_limits(self._sizes, free)
        shown = self._count_shown(request.steps, self._limits)
        self._count_sent(request.completed_calls, shown)
        return replace(request, steps=_cut_steps(request.steps, shown, reader))

    def _count_shown(
        self, steps: Sequence[TurnStep], limits: Iterable[int | None]
    ) -> list[int | None]:
        """Return how many characters of each result stay; None for one that is not cut.

        `limits` are by step, the most tokens of each of its results.
        """
        return [
            None
            if limit is None or size <= limit
            else count_fitting_characters(result.text, limit - POSITION_TOKENS)
            for step, sizes, limit in zip(steps, self._sizes, limits, strict=True)
            for result, size in zip(step.done, sizes, strict=True)
        ]

    def _count_sent(self, results: Sequence[CompletedCall], shown: Sequence[int | None]) -> None:
        """Count the most that a request has had of each result."""
        most = self._most_sent
        for result, count in zip(results, shown, strict=True):
            characters = len(result.text) if count is None else count
            most[result.seq] = max(most.get(result.seq, 0), characters)
        self.sent_characters = {
            one.seq: most[one.seq] for one in results if most[one.seq] < len(one.text)
        }

    def _choose_limits(self, sizes: Sequence[Sequence[int]], free: int) -> None:
        """Lower limits until results of these sizes have `free` tokens, marks excluded."""
        limits = self._limits
        if _count_limited(sizes, limits) <= free:
            return
        last = len(sizes) - 1
        target = free * CUT_TO_FRACTION
        for limit in (None, *OLD_RESULT_TOKENS):
            for step in range(last if limit is not None else 0):
                if _count_limited(sizes[:last], limits) <= target:
                    break
                old = limits[step]
                limits[step] = limit if old is None or limit is None else min(old, limit)
            left = free - _count_limited(sizes[:last], limits)
            share = _share_fairly(sizes[last], left)
            if sum(sizes[last]) > left:
                share = _share_fairly(sizes[last], int(left * CUT_TO_FRACTION))
            if left >= 0 and share >= min(OLD_RESULT_TOKENS[0], max(sizes[last], default=0)):
                break
        limits[last] = share if limits[last] is None else min(share, limits[last] or 0)


def _count_limited(sizes: Sequence[Sequence[int]], limits: Iterable[int | None]) -> int:
    return sum(
        size if limit is None else min(size, limit)
        for step, limit in zip(sizes, limits, strict=False)
        for size in step
    )


def _share_fairly(sizes: Sequence[int], budget: int) -> int:
    """Return the greatest limit such that results with it fit the budget together."""
    left = max(0, budget)
    for place, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - place)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)


def _count_cuttable(result: CompletedCall, reader: Reader) -> int:
    """Return the tokens of a result beyond those that stay when it is cut to nothing."""
    cut = _cut_result(result, 0, reader)
    return max(0, estimate_tokens(result.text) - estimate_tokens(cut.text))


def _cut_steps(
    steps: Sequence[TurnStep], shown: Sequence[int | None], reader: Reader
) -> tuple[TurnStep, ...]:
    """Return steps with each of their results cut to its number of characters."""
    counts = iter(shown)
    return tuple(
        replace(
            step,
            done=tuple(
                result if (count := next(counts)) is None else _cut_result(result, count, reader)
                for result in step.done
            ),
        )
        for step in steps
    )


def _cut_result(result: CompletedCall, characters: int, reader: Reader) -> CompletedCall:
    text = cut_text(result.text, characters, result.seq, reader, result.length)
    return replace(result, text=text)
