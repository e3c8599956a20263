"""Truncation of old tool results in the steps of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sshwarma.common.limits import (
    MAX_OLD_RESULT_CHARACTERS,
    MAX_TURN_RESULT_CHARACTERS,
    MAX_WHOLE_RESULTS,
)
from sshwarma.models.backend import TurnStep
from sshwarma.wrap.transcript import clip_text


def truncate_results(
    steps: Sequence[TurnStep],
    *,
    whole: int = MAX_WHOLE_RESULTS,
    limit: int = MAX_TURN_RESULT_CHARACTERS,
) -> tuple[TurnStep, ...]:
    """Truncate old results if a turn's results exceed `limit` characters in total.

    The newest `whole` results stay; each older one is cut to MAX_OLD_RESULT_CHARACTERS.
    """
    results = [result for step in steps for result in step.done]
    if sum(len(result.text) for result in results) <= limit:
        return tuple(steps)
    old_ids = {id(result) for result in results[: max(0, len(results) - whole)]}
    return tuple(
        replace(
            step,
            done=tuple(
                replace(result, text=clip_text(result.text, MAX_OLD_RESULT_CHARACTERS, result.seq))
                if id(result) in old_ids
                else result
                for result in step.done
            ),
        )
        for step in steps
    )
