"""The steps of a turn as they are sent on: results that are old and many, cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sshwarma.models.backend import TurnStep
from sshwarma.wrap.transcript import clip_text

MAX_WHOLE_RESULTS: Final = 5
"""Newest results of a turn that are sent up to MOST_CHARACTERS long, however many there are."""

MAX_RESULTS_CHARACTERS: Final = 20_000
"""Characters of results in a turn; beyond, those before the newest are sent much shorter."""

MAX_OLD_RESULT_CHARACTERS: Final = 500


def truncate_results(
    steps: Sequence[TurnStep], *, whole: int = MAX_WHOLE_RESULTS, most: int = MAX_RESULTS_CHARACTERS
) -> tuple[TurnStep, ...]:
    """The steps of a turn, with results before the newest `whole` cut short if all of them are
    longer than `most` characters."""
    results = [done for step in steps for done in step.done]
    if sum(len(done.text) for done in results) <= most:
        return tuple(steps)
    old = {id(done) for done in results[: max(0, len(results) - whole)]}
    return tuple(
        replace(
            step,
            done=tuple(
                replace(done, text=clip_text(done.text, MAX_OLD_RESULT_CHARACTERS, done.seq))
                if id(done) in old
                else done
                for done in step.done
            ),
        )
        for step in steps
    )
