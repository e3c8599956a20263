"""Turn loop: stream a model's answer and call its tools until it stops calling.

Rows are stored when they are final. A failure, a stop or a budget ends the turn with a notice.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing
from dataclasses import replace
from functools import partial

import structlog

from sshwarma.common.limits import BACKEND_SILENCE_SECONDS
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.models.answer_guard import AnswerGuard, describe_cut
from sshwarma.models.backend import (
    GUIDE_KIND,
    AnswerCut,
    Backend,
    BackendError,
    MeteredBackend,
    ReasoningDelta,
    RequestSent,
    RetryDelay,
    StepRequest,
    TextDelta,
    TextFold,
    ToolCall,
    TurnStep,
)
from sshwarma.models.budget import BudgetExceeded, TurnBudget
from sshwarma.models.fit_results import ResultFitter
from sshwarma.models.follow_ups import FollowUpHandler
from sshwarma.models.live_answer import LiveAnswer
from sshwarma.models.offered_tools import make_model_reader
from sshwarma.models.request_limit import RequestLimit
from sshwarma.models.request_size import count_request_tokens
from sshwarma.models.step_calls import StepCalls
from sshwarma.models.step_requests import StepRequestBuilder
from sshwarma.models.turn_access import while_asker_has_access
from sshwarma.models.turn_context import AskedText, compose_turn_context
from sshwarma.models.turn_deps import SentRequest, TurnDeps
from sshwarma.models.turn_rows import TurnRows, describe_failure
from sshwarma.world import turns, usage
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.end_reason import EndReason
from sshwarma.world.errors import WorldError
from sshwarma.world.events import StreamEnded
from sshwarma.world.ids import now_ms
from sshwarma.world.questions import Question
from sshwarma.world.reader import Reader
from sshwarma.world.request_services import RequestServices
from sshwarma.world.row import Row
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn, TurnStatus
from sshwarma.world.usage import TokenUsage
from sshwarma.wrap.compose import ModelContext
from sshwarma.wrap.host import LuaError
from sshwarma.wrap.tokens import MIN_ANSWER_TOKENS

log = structlog.get_logger(__name__)


class RunningTurn:
    """A running turn.

    Attributes:
        rows: Adds the rows of the turn to its room.
        services: Services of the request, for the tool calls of the turn.
        asked: The question that this turn belongs to.
        live_answer: What has arrived of the answer.
        status: How it ended; `end_reason` why, unless it has a whole answer.
    """

    def __init__(
        self,
        deps: TurnDeps,
        turn: Turn,
        agent: Agent,
        question: Row,
        services: RequestServices,
        *,
        asked: Question,
        follower: FollowUpHandler[RunningTurn],
    ) -> None:
        self.turn = turn
        self.agent = agent
        self.services = services
        self.asked = asked
        self.rows = TurnRows(turn, agent, question)
        self.stopped = False
        self.status: TurnStatus = "open"
        self.end_reason: EndReason | None = None
        self._stop_text = "was stopped"
        self.task: asyncio.Task[None] | None = None
        self._deps, self._world = deps, deps.world
        self._question = question
        asker = deps.world.agents.name_author(question)
        self._requests = StepRequestBuilder(asker, question.content)
        self._follower = follower
        self.live_answer = LiveAnswer(deps.world, turn)
        self._calls = StepCalls(deps, self.live_answer, turn, question)
        self._budget = TurnBudget()
        self._results = ResultFitter()
        self._reader: Reader | None = None  # the model, with the tools of its latest request
        self._limit = RequestLimit()
        self._uncounted_step: tuple[Backend, StepRequest] | None = None  # started, without usage
        self._is_started = False  # whether the task has begun to run
        self._is_finishing = False  # whether the end is being stored, which must not be interrupted

    def start(self) -> None:
        """Start the turn in its own task; show it in the room."""
        self.live_answer.publish()
        self.task = asyncio.get_running_loop().create_task(self._run())

    def stop(self, why: str = "") -> None:
        """Stop the turn at any point; one whose task has not run yet ends when it does.

        `why` is what follows "was stopped", such as " by amy"; "" if the server stopped it.
        """
        self._stop_text = self._stop_text if self.stopped else f"was stopped{why}"
        self.stopped = True
        if self.task is not None and self._is_started and not self._is_finishing:
            self._is_finishing = True
            self.task.cancel()

    async def _run(self) -> None:
        reason: EndReason | None = None
        self._is_started = True
        try:
            if self.stopped:
                raise asyncio.CancelledError
            self._budget = await self._deps.budgets.begin_turn(self.agent.id)
            with (
                self._world.open_requests.begin(self.agent.id, room_id=self.turn.room_id),
                while_asker_has_access(self._world, self.asked, self.turn.room_id),
            ):
                await self._budget.run_with_timeout(self._run_steps())
        except asyncio.CancelledError:
            reason = EndReason(self._stop_text, cause="stopped")
        except BudgetExceeded as over:
            reason = over.reason
        except (BackendError, WorldError) as failed:
            reason = describe_failure(failed, has_begun=bool(self.live_answer.text))
            if not self.live_answer.text and not self.live_answer.reasoning:
                self._uncounted_step = None  # the request produced nothing
        except TimeoutError:
            text = f"timed out after {BACKEND_SILENCE_SECONDS:.0f} s without output"
            reason = EndReason(text, cause="provider")
        except Exception:
            log.exception("a turn failed", agent=self.agent.name)
            reason = EndReason(f"could not answer: {INTERNAL_ERROR}", cause="internal")
        finally:
            self._is_finishing = True
            self.live_answer.end()
            await asyncio.shield(self._finish(reason))

    async def _run_steps(self) -> None:
        """Run steps until the model makes no more calls."""
        backend = self._deps.backends.get(self.agent.id)
        if backend is None:  # it was removed after the mention
            raise BackendError("the model was removed", cause="the model was removed")
        self._budget.check()
        context = await self._compose(backend, self._limit.set_window(backend))
        steps: tuple[TurnStep, ...] = ()
        while True:
            await self._make_caller().as_present()
            self._budget.begin_step()
            calls, context = await self._run_fitting_step(backend, context, steps)
            if not calls:
                return
            text = self.live_answer.text
            await self._append_text()
            self._budget.check()
            if self._budget.is_last_step:  # a provider may ignore that it offers no tools
                raise self._budget.make_end_error()
            steps += (TurnStep(text, await self._calls.run(self._make_caller(), calls)),)
            self.live_answer.set_running_tools()

    async def _run_fitting_step(
        self, backend: Backend, context: ModelContext, steps: tuple[TurnStep, ...]
    ) -> tuple[list[ToolCall], ModelContext]:
        """Run one step, again with a shorter context if that of the turn is too long.

        Returns its tool calls, and the context for the next step.
        """
        while True:
            try:
                return await self._run_step(backend, context, steps), context
            except BackendError as error:
                context = await self._shorten_context(backend, error)

    async def _shorten_context(self, backend: Backend, error: BackendError) -> ModelContext:
        """Compose a shorter context than in the request of the step that failed.

        Results of the turn itself are cut to fit it, too.

        Raises:
            BackendError: the error, if a shorter context does not help.
        """
        if self.live_answer.text or self._uncounted_step is None:
            raise error
        self._limit.check_may_lower(error)
        _, request = self._uncounted_step
        lower = partial(self._limit.lower, request, backend, self.agent.name, self.turn)
        text = await asyncio.to_thread(lower)
        await self._world.change(partial(self.rows.append_notice, text=text))
        window = self._limit.count_window_tokens(backend.output_tokens)
        return await self._compose(backend, window)

    async def _run_step(
        self, backend: Backend, composed: ModelContext, steps: tuple[TurnStep, ...]
    ) -> list[ToolCall]:
        """Run one step and return its tool calls."""
        request = await self._build_request(backend, composed, steps)
        calls: list[ToolCall] = []
        self.live_answer.cut_reason = None
        guard = AnswerGuard(self.live_answer, backend.output_tokens)
        self._uncounted_step = backend, request
        async with aclosing(backend.stream(request)) as stream:
            while True:
                async with asyncio.timeout(BACKEND_SILENCE_SECONDS):
                    part = await anext(stream, None)
                if part is None:
                    await self._append_reasoning()
                    return calls
                if isinstance(part, RetryDelay):
                    self.live_answer.set_wait_reason(
                        f"waiting {math.ceil(part.seconds)} s ({part.reason})"
                    )
                    continue
                self.live_answer.set_wait_reason("")
                if isinstance(part, TextDelta | ReasoningDelta):
                    if guard.must_end(part):
                        await self._append_reasoning()
                        return []
                elif isinstance(part, TextFold):
                    self.live_answer.fold_text()
                elif isinstance(part, TokenUsage):
                    self._uncounted_step = None
                    await self._record_usage(backend.model, part)
                elif isinstance(part, AnswerCut):
                    self.live_answer.cut_reason = describe_cut(backend.output_tokens)
                elif isinstance(part, RequestSent):
                    named = composed.private_room_ids
                    asker_id = self._question.author_id if request.has_private_calls else None
                    sent = SentRequest(now_ms(), backend.model, part.body, named, asker_id)
                    self._deps.sent_requests.record(self.turn.room_id, self.agent.id, sent)
                else:
                    calls.append(part)

    async def _build_request(
        self, backend: Backend, composed: ModelContext, steps: tuple[TurnStep, ...]
    ) -> StepRequest:
        """Return the next step's request, which fits the context and the turn's tokens."""
        request = await self._requests.build(
            self._make_caller(), composed, steps, profile=backend.profile
        )
        if backend.provider_kind != GUIDE_KIND:  # what the guide is sent, people read
            self._reader = make_model_reader(request.tools)
        answer_tokens = min(MIN_ANSWER_TOKENS, backend.output_tokens or MIN_ANSWER_TOKENS)
        size = 0
        if self._limit.tokens:
            left = self._budget.left_tokens
            budget = self._limit.tokens
            if left is not None:
                budget = min(budget, max(0, left - answer_tokens))
            known = self._results.sent_characters
            # In a thread: to estimate the tokens of long results takes tens of milliseconds.
            request = await asyncio.to_thread(self._results.fit, request, budget)
            sent = self._results.sent_characters
            if sent != known:  # later turns keep as much, where the tool says KEEP
                await self._world.change(partial(self.rows.record_sent_characters, sent=sent))
            size = await asyncio.to_thread(count_request_tokens, request)
        self._budget.plan_step(size, answer_tokens)
        return replace(request, is_last=self._budget.is_last_step)

    async def _compose(self, backend: Backend, budget: int) -> ModelContext:
        """Compose the context in about `budget` tokens; empty if that is 0.

        Errors of layer scripts become notices in the room.
        """
        if budget == 0:
            return ModelContext(())
        question = self._question
        asker = self._world.agents.name_author(question)
        asked = AskedText(question.content, asker, question.seq)
        try:
            composed = await compose_turn_context(
                self._deps.composer, self._make_caller(), backend, asked, budget
            )
        except LuaError as error:
            text = "its context could not be composed"
            raise BackendError(f"{text}: {error}", cause=text) from error
        context = composed.context
        self._limit.check_tools(len(composed.offers), context.tool_tokens)
        last = self._deps.context_log.find_last(self.turn.room_id, self.agent.id)
        known = () if last is None else last.notices  # a script fails at each answer
        for notice in (one for one in context.notices if one not in known):
            await self._world.change(partial(self.rows.append_notice, text=notice))
        self._deps.context_log.record(self.turn.room_id, self.agent.id, context)
        return context

    def _make_caller(self) -> Caller:
        return Caller(
            world=self._world,
            services=self.services,
            limits=self._deps.settings.limits,
            agent=self._world.agents.get(self.agent.id) or self.agent,
            room_id=self.turn.room_id,
            door="model",
            question=self.asked,
            command=self.asked.name_script(self._world.agents),
            called_in_id=self.turn.room_id,
            on_wait=self._budget.extend_time,
            model_reader=self._reader,
        )

    async def _record_usage(self, model: str, spent: TokenUsage) -> None:
        self._budget.add_usage(spent)
        await self._world.change(
            lambda tx: usage.record_usage(
                tx, room_id=self.turn.room_id, agent_id=self.agent.id, turn_id=self.turn.id,
                model=model, spent=spent,
            )
        )  # fmt: skip

    async def _record_unfinished_step(self) -> None:
        """Record the estimated usage of an interrupted step, which the provider charges."""
        if self._uncounted_step is None or self.live_answer.is_waiting:
            return
        backend, request = self._uncounted_step
        if isinstance(backend, MeteredBackend):
            estimate = backend.estimate_usage(
                request, self.live_answer.reasoning + self.live_answer.text
            )
            if estimate is not None:
                await self._record_usage(backend.model, estimate)

    async def _append_reasoning(self) -> None:
        """Store the reasoning as a row."""
        text = self.live_answer.take_reasoning()
        if text:
            await self._world.change(lambda tx: self.rows.append_thought(tx, text))

    async def _append_text(self) -> None:
        """Store the text so far as a row, before the tool calls."""
        text = self.live_answer.take_text()
        if text:
            await self._world.change(lambda tx: self.rows.append_reply(tx, text))
        self.live_answer.publish()

    async def _finish(self, reason: EndReason | None) -> None:
        """Store the end of the turn: last text, notice and status."""
        turn = self.turn
        self.end_reason = incomplete = reason or self.live_answer.cut_reason
        self.status = incomplete.status if incomplete else "completed"

        def work(tx: Change) -> Row | None:
            self._take_back(follow_ups)  # of a run before, which was rolled back
            row = None
            if text:
                row = self.rows.append_reply(tx, text, cut=incomplete is not None)
            if incomplete:
                self.rows.append_end(tx, incomplete)
            backend = self._deps.backends.get(self.agent.id)
            kind = backend.provider_kind if backend is not None else None
            turns.close_turn(tx, turn.id, self.status, kind)
            if row is not None and not incomplete:
                follow_ups.extend(self._follower.open_follow_ups(tx, self, row))
            tx.publish_on_commit(StreamEnded(turn.room_id, turn.id))
            return row

        row: Row | None = None
        follow_ups: list[tuple[Turn, Agent]] = []
        try:
            await self._record_unfinished_step()
            text = self.live_answer.take_text()
            row = await self._world.change(work)
        except WorldError as error:
            log.error("a turn could not be stored", agent=self.agent.name, error=str(error))
            self._take_back(follow_ups)
            self._world.bus.publish(StreamEnded(turn.room_id, turn.id))
        except Exception:
            log.exception("a turn could not be stored", agent=self.agent.name)
            self._take_back(follow_ups)
            await self._world.change(self.rows.close_failed_turn)
        finally:
            self._follower.start_follow_ups(self, row, follow_ups)

    def _take_back(self, follow_ups: list[tuple[Turn, Agent]]) -> None:
        """Forget turns that were not stored, so that their models can be asked again."""
        self.asked.take_back(agent.id for _, agent in follow_ups)
        follow_ups.clear()
