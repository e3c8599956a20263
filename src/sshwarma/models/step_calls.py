"""Tool calls of one step: run concurrently, stored in the order of the model."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Final

from sshwarma.common.limits import MAX_CALLS_PER_STEP, MAX_RESULT_CHARACTERS
from sshwarma.common.shorten import join_with_rest
from sshwarma.models.backend import CompletedCall, ToolCall
from sshwarma.models.live_answer import LiveAnswer
from sshwarma.models.turn_deps import TurnDeps
from sshwarma.tools.call_outcome import add_changes
from sshwarma.tools.call_position import CallPosition
from sshwarma.world.caller import Caller
from sshwarma.world.mentions import write_names_plainly
from sshwarma.world.row import Row
from sshwarma.world.turns import Turn
from sshwarma.wrap.cut_marks import cut_text

MAX_CHECKED_NAMES: Final = 10 * MAX_CALLS_PER_STEP
"""Names of tools that are looked up in one step: far more than a step calls."""

MAX_NAMED_TOOLS: Final = 5
"""Unknown tools that a refusal names; the others are counted."""


class StepCalls:
    """Runs the tool calls of a turn that answers `question`."""

    def __init__(self, deps: TurnDeps, live_answer: LiveAnswer, turn: Turn, question: Row) -> None:
        self._deps = deps
        self._live_answer = live_answer
        self._turn = turn
        self._question = question
        self._step = 0

    async def run(self, caller: Caller, calls: list[ToolCall]) -> tuple[CompletedCall, ...]:
        """Run the calls of a step concurrently.

        Calls and results become rows in the order of the model; an early result waits for those
        before it. Of more than MAX_CALLS_PER_STEP calls the first are run, and one more stands for
        the others, which are refused; so does one for several calls of unknown tools.
        """
        self._step += 1
        calls = await self._fold_unknown(caller, calls)
        refused = calls[MAX_CALLS_PER_STEP:]
        calls = calls[: MAX_CALLS_PER_STEP + 1]
        # The calls that are made, and so not those that the model asked for.
        self._live_answer.set_running_tools(*(call.name for call in calls))
        places: list[CallPosition] = []
        for number in range(len(calls)):
            hide = partial(self._live_answer.hide_tool, number)
            places.append(CallPosition(self._step, places[-1] if places else None, hide))

        async def run_call(number: int, call: ToolCall) -> CompletedCall:
            refusal = call.parse_error
            if number >= MAX_CALLS_PER_STEP:
                refusal = f"At most {MAX_CALLS_PER_STEP} tools can be called in one step."
                if len(refused) > 1:
                    refusal += f" {len(refused)} calls were refused, this one and those after it."
            try:
                return await self._run_call(caller, number, call, refusal, places[number])
            finally:
                places[number].release()

        coroutines = (run_call(number, call) for number, call in enumerate(calls))
        results = await asyncio.gather(*coroutines, return_exceptions=True)
        for outcome in results:
            if isinstance(outcome, BaseException):  # the model may no longer be or talk here
                raise outcome
        return tuple(result for result in results if isinstance(result, CompletedCall))

    async def _fold_unknown(self, caller: Caller, calls: list[ToolCall]) -> list[ToolCall]:
        """Let one refused call stand for all of unknown tools, if there are several.

        At most MAX_CHECKED_NAMES different names are looked up; calls by others are refused too.
        """
        if len(calls) < 2:
            return calls
        names = list(dict.fromkeys(call.name for call in calls))
        find = self._deps.tools.find_known
        known = {name for name in names[:MAX_CHECKED_NAMES] if await find(caller, name) is not None}
        unknown = [call for call in calls if call.name not in known]
        if len(unknown) < 2:  # the refusal of one suggests similar names
            return calls
        unknown_names = [name for name in names if name not in known]
        refusal = (
            f"{len(unknown)} calls of unknown tools were refused:"
            f" {join_with_rest(unknown_names, MAX_NAMED_TOOLS)}."
        )
        place = calls.index(unknown[0])
        rest = [call for call in calls[place:] if call.name in known]
        return [*calls[:place], replace(unknown[0], parse_error=refusal), *rest]

    async def _run_call(
        self, caller: Caller, number: int, call: ToolCall, refusal: str, place: CallPosition
    ) -> CompletedCall:
        def report(text: str) -> None:
            self._live_answer.report_progress(number, text)

        outcome = await self._deps.tools.call(
            replace(caller, on_progress=report),
            call.name,
            call.arguments,
            turn_id=self._turn.id,
            parent_row_id=self._question.id,
            refusal=refusal,
            place=place,
        )
        text = cut_text(outcome.text, MAX_RESULT_CHARACTERS, outcome.seq, caller.reader)
        text = add_changes(text, outcome.changes)
        text = write_names_plainly(text, caller.world.agents)
        is_error = outcome.ending != "result"
        length, is_private = len(outcome.text), outcome.is_private
        return CompletedCall(call, text, is_error, outcome.seq, length, is_private)
