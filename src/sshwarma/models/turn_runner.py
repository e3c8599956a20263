"""Turns of a world: which models answer, the running turns, and their follow-ups."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from typing import Final

import structlog

from sshwarma.common.limits import MAX_ANSWERS_PER_ROOM
from sshwarma.models.backend import GUIDE_KIND, Backend, PreviewBackend
from sshwarma.models.budget import ModelBudgets
from sshwarma.models.open_turns import open_turns
from sshwarma.models.step_requests import StepRequestBuilder
from sshwarma.models.turn_context import AskedText, TurnContext, compose_turn_context
from sshwarma.models.turn_counts import TurnCounts
from sshwarma.models.turn_deps import SentRequest, TurnDeps
from sshwarma.models.turn_loop import RunningTurn
from sshwarma.settings import ReloadableSettings
from sshwarma.tools.call import Tools
from sshwarma.world import mentions, rooms, turns
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.ids import now_ms
from sshwarma.world.questions import Question
from sshwarma.world.request_services import RequestServices
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer, ModelContext

log = structlog.get_logger(__name__)

TURN_STOP_TIMEOUT_SECONDS: Final = 5.0
"""Seconds to wait for stopped turns to end."""


class TurnRunner:
    """Starts, tracks and stops the turns of a world; `backends` are by agent id."""

    def __init__(
        self,
        world: World,
        tools: Tools,
        backends: Mapping[str, Backend],
        settings: ReloadableSettings,
        composer: ContextComposer,
        budgets: ModelBudgets,
    ) -> None:
        self._world = world
        self._backends = backends
        self._deps = TurnDeps(
            world=world,
            tools=tools,
            backends=backends,
            settings=settings,
            composer=composer,
            budgets=budgets,
        )
        self._running: dict[str, RunningTurn] = {}
        self.counts = TurnCounts()

    def can_answer(self, agent: Agent) -> bool:
        """Return whether a backend answers mentions of the agent."""
        return agent.id in self._backends and not agent.disabled

    def explain_end(self, agent: Agent) -> str:
        """Return why the end of the server could cut an answer; "" if it could not.

        The guide answers at once.
        """
        draining, backend = self._world.draining, self._backends.get(agent.id)
        is_guide = backend is not None and backend.provider_kind == GUIDE_KIND
        seconds = self._deps.budgets.seconds_of(agent.id) if draining.is_on and not is_guide else 0
        if seconds <= draining.seconds_left:
            return ""
        return f"{draining.describe()}, and an answer may take {seconds:g} s"

    def list_models_in(self, room: Room) -> list[Agent]:
        """Return the agents that answer mentions in a room now, by name."""
        now = now_ms()
        return sorted(
            (
                agent
                for agent in self._world.agents
                if self.can_answer(agent) and not room.explain_silence(agent, now)
            ),
            key=lambda agent: agent.name,
        )

    def model_of(self, agent: Agent) -> str:
        """Return the name of the model that answers for an agent."""
        return self._backends[agent.id].model

    def context_tokens_of(self, agent: Agent) -> int:
        """Return an agent's context window in tokens; 0 if it reads no context."""
        return self._backends[agent.id].context_tokens

    def last_context(self, room_id: str, agent_id: str) -> ModelContext | None:
        """Return the last context that a model was sent in a room, if still known."""
        return self._deps.context_log.find_last(room_id, agent_id)

    def last_request(self, room_id: str, agent_id: str) -> SentRequest | None:
        """Return the last request that a model was sent in a room, if still known."""
        return self._deps.sent_requests.find_last(room_id, agent_id)

    async def preview_context(
        self, caller: Caller, asked: AskedText, *, preview_tokens: int | None = None
    ) -> TurnContext:
        """Compose the context that a model would be sent for a question.

        Args:
            caller: the model, in its room.
            asked: the question.
            preview_tokens: as of `ContextComposer.compose`.

        Raises:
            LuaError: if it cannot be composed.
        """
        backend = self._backends[caller.agent.id] if self.can_answer(caller.agent) else None
        return await compose_turn_context(
            self._deps.composer, caller, backend, asked, preview_tokens=preview_tokens
        )

    async def preview_request(
        self, caller: Caller, context: ModelContext, asker: str, text: str
    ) -> bytes | None:
        """Return the body of the request that a model would be sent first, as JSON.

        Args:
            caller: the model, in its room.
            context: its context, composed for the question.
            asker: name of the agent who asks.
            text: the question.

        Returns:
            None if the model has no such requests, as one without a server.

        Raises:
            BackendError: if its key or a package is missing.
        """
        if caller.agent.id not in self._backends:
            return None
        backend = self._backends[caller.agent.id]
        if not isinstance(backend, PreviewBackend):
            return None
        builder = StepRequestBuilder(asker, text)
        request = await builder.build(caller, context, (), profile=backend.profile)
        return await backend.preview(request)

    def find_mentioned_models(self, text: str, by: Agent) -> list[Agent]:
        """Return the models that a text mentions and that can answer."""
        return [agent for agent in self._find_mentioned(text, by) if self.can_answer(agent)]

    def unavailable_mentions(self, text: str, by: Agent) -> list[Agent]:
        """Return the models that a text mentions and that cannot answer now."""
        return [agent for agent in self._find_mentioned(text, by) if not self.can_answer(agent)]

    def _find_mentioned(self, text: str, by: Agent) -> list[Agent]:
        if "@" not in text:
            return []
        models = [agent for agent in self._world.agents if agent.kind == "model"]
        find = mentions.find_called_agents if by.kind == "model" else mentions.find_mentioned_agents
        return [agent for agent in find(text, models) if agent.id != by.id]

    def has_capacity(self, room_id: str, more: int) -> bool:
        """Return whether `more` more answers may start in a room."""
        running_turns = tuple(self._running.values())  # the writer thread calls this too
        count = sum(running_turn.turn.room_id == room_id for running_turn in running_turns)
        return count + more <= MAX_ANSWERS_PER_ROOM

    def count_running(self) -> Counter[tuple[str, bool]]:
        """Return the number of running turns by agent id, and by whether they wait.

        One waits whose provider is busy.
        """
        return Counter(
            (turn.agent.id, turn.live_answer.is_waiting) for turn in self._running.values()
        )

    def waiting_agent_ids(self, room_id: str, agent_id: str | None = None) -> list[str]:
        """Return the ids of agents that wait for answers in a room, or for one model's."""
        ids = (
            running_turn.asked.person_id
            for running_turn in self._running.values()
            if running_turn.turn.room_id == room_id and agent_id in (None, running_turn.agent.id)
        )
        return list(dict.fromkeys(ids))

    def start_turn(
        self,
        turn: Turn,
        agent: Agent,
        question: Row,
        services: RequestServices,
        *,
        asked: Question,
    ) -> None:
        """Start answering a row, in a turn that is already open and stored.

        Args:
            turn: The turn.
            agent: The model's agent.
            question: The row to answer.
            services: Services of the asking request, for the model's own calls.
            asked: The question that the turn belongs to.
        """
        running_turn = RunningTurn(
            self._deps,
            turn,
            agent,
            question,
            services,
            asked=asked,
            follower=self,
        )
        self._running[turn.id] = running_turn
        running_turn.start()

    async def stop_turn(self, turn_id: str, by: str) -> None:
        """Stop one turn for the agent named `by` and wait for its end, unless it ended."""
        running_turn = self._running.get(turn_id)
        if running_turn is not None:
            running_turn.stop(f" by {by}")
            await self.wait_until_ended(turn_id)

    async def wait_until_ended(self, turn_id: str) -> None:
        """Wait until a turn has ended and its last row is stored."""
        running_turn = self._running.get(turn_id)
        if running_turn is not None and running_turn.task is not None:
            await asyncio.wait({running_turn.task})

    def stop(
        self,
        room_id: str | None,
        *,
        agent_id: str | None = None,
        opened_by: str | None = None,
        by: str = "",
    ) -> list[str]:
        """Stop turns of a room, or of all rooms; return the names of the stopped models.

        Args:
            room_id: The room; None for all.
            agent_id: Only turns of this model.
            opened_by: Only turns that this agent opened or that began with it.
            by: Name of the agent that stops them, for the notice.
        """
        matches = [
            running_turn
            for running_turn in self._running.values()
            if room_id in (None, running_turn.turn.room_id)
            and agent_id in (None, running_turn.agent.id)
            and opened_by in (None, running_turn.turn.opened_by, running_turn.asked.person_id)
        ]
        for running_turn in matches:
            running_turn.stop(f" by {by}" if by else "")
        return [running_turn.agent.name for running_turn in matches]

    async def wait_for_stopped(self, room_id: str) -> None:
        """Wait for the stopped turns of a room to end, at most TURN_STOP_TIMEOUT_SECONDS."""
        tasks = {
            running_turn.task
            for running_turn in self._running.values()
            if running_turn.turn.room_id == room_id
            and running_turn.stopped
            and running_turn.task is not None
        }
        if tasks:
            await asyncio.wait(tasks, timeout=TURN_STOP_TIMEOUT_SECONDS)

    async def wait_until_idle(self, seconds: float) -> None:
        """Wait until no turn runs, also none that another has started, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while tasks := {one.task for one in self._running.values() if one.task is not None}:
                    await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stop all turns and wait until each has stored its end."""
        running_turns = tuple(self._running.values())
        for running_turn in running_turns:
            running_turn.stop()
        tasks = [
            running_turn.task for running_turn in running_turns if running_turn.task is not None
        ]
        await asyncio.gather(*tasks, return_exceptions=True)

    def open_follow_ups(
        self, tx: Change, running_turn: RunningTurn, row: Row
    ) -> list[tuple[Turn, Agent]]:
        """Open turns for the models that an answer mentions, within the limits."""
        asked = running_turn.asked
        mentioned = self.find_mentioned_models(row.content, running_turn.agent)
        models: list[Agent] = []
        refused: dict[str, list[str]] = {}  # names by reason
        for agent in mentioned and self._filter_silent(tx, running_turn, mentioned):
            reason = asked.explain_refusal(agent.id, len(models)) or self.explain_end(agent)
            if not reason and not self.has_capacity(running_turn.turn.room_id, len(models) + 1):
                reason = f"a room may have at most {MAX_ANSWERS_PER_ROOM} answers in progress"
            if reason:
                refused.setdefault(reason, []).append(agent.name)
            else:
                models.append(agent)
        for reason, names in refused.items():
            running_turn.rows.append_notice(tx, f"called {', '.join(names)}, but {reason}")
        new_turns = open_turns(
            tx,
            running_turn.turn.room_id,
            models,
            running_turn.agent.id,
            root_turn_id=running_turn.turn.question_id,
        )
        turns.set_request_row(tx, [turn.id for turn in new_turns], row)
        # Here and not after the commit: another answer to the question may be the next unit.
        asked.asked_ids.update(agent.id for agent in models)
        return list(zip(new_turns, models, strict=True))

    def _filter_silent(
        self, tx: Change, running_turn: RunningTurn, mentioned: list[Agent]
    ) -> list[Agent]:
        """Return the models that answer in the room; add a notice about the others."""
        try:
            room = rooms.read_room(tx.conn, running_turn.turn.room_id)
        except NotFound:  # it was deleted during the answer
            return []
        models = []
        for agent in mentioned:
            reason = room.explain_silence(agent, tx.now).removesuffix(".")
            if reason:
                running_turn.rows.append_notice(tx, f"called {agent.name}, but {reason}")
            else:
                models.append(agent)
        return models

    def start_follow_ups(
        self, running_turn: RunningTurn, row: Row | None, opened: list[tuple[Turn, Agent]]
    ) -> None:
        """Remove an ended turn and start those that it opened."""
        self._running.pop(running_turn.turn.id, None)
        agent, end = running_turn.agent, running_turn.end_reason
        self.counts.count_end(agent.id, running_turn.status, end.cause if end else None)
        if end is not None and end.cause == "provider":
            log.warning("a model did not answer", agent=agent.name, reason=end.text)
        if row is not None:
            for turn, agent in opened:
                self.start_turn(
                    turn,
                    agent,
                    row,
                    running_turn.services,
                    asked=running_turn.asked,
                )
