"""The turns of a world: who answers, which answers are coming, and what follows from one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from sshwarma.common.limits import MAX_ANSWERS_PER_ROOM
from sshwarma.models.backend import Backend
from sshwarma.models.budget import BudgetLimits, ModelBudgets
from sshwarma.models.open_turns import open_turns
from sshwarma.models.turn_deps import TurnDeps
from sshwarma.models.turn_loop import TurnLoop
from sshwarma.settings import LimitSettings
from sshwarma.tools.call import Tools
from sshwarma.world import mentions, turns
from sshwarma.world.agents import Agent
from sshwarma.world.caller import RequestServices
from sshwarma.world.events import Row
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer, ModelContext

STOP_TIMEOUT_SECONDS: Final = 5.0
"""How long whoever stops turns waits for their ends."""


class TurnRunner:
    """The turns of a world. `backends` are by the id of the agent they answer for."""

    def __init__(
        self,
        world: World,
        tools: Tools,
        backends: Mapping[str, Backend],
        limits: LimitSettings,
        composer: ContextComposer | None = None,
        budgets: ModelBudgets | None = None,
    ) -> None:
        self._world = world
        self._backends = backends
        self._limits = limits
        budgets = budgets or ModelBudgets(world, lambda agent_id: BudgetLimits())
        self._deps = TurnDeps(world, tools, backends, limits, composer, budgets)
        self._running: dict[str, TurnLoop] = {}

    def answers(self, agent: Agent) -> bool:
        """Whether a mention of the agent is answered by a backend."""
        return agent.id in self._backends and not agent.disabled

    def model_of(self, agent: Agent) -> str:
        """The name of the model that answers for an agent."""
        return self._backends[agent.id].model

    def budget_of(self, agent: Agent) -> int:
        """How many tokens a model takes in all; 0 for one that reads no context."""
        return self._backends[agent.id].context_tokens

    def sent(self, room_id: str, agent_id: str) -> ModelContext | None:
        """What a model was told last in a room, if that is still remembered."""
        return self._deps.sent.last(room_id, agent_id)

    def called(self, text: str, by: Agent) -> list[Agent]:
        """The models that a text of somebody calls and that would answer."""
        models = (agent for agent in self._world.agents if agent.kind == "model")
        found = mentions.find_mentioned_agents(text, models)
        return [agent for agent in found if agent.id != by.id and self.answers(agent)]

    def silent(self, text: str, by: Agent) -> list[Agent]:
        """The models that a text of somebody calls and that do not answer now."""
        models = (agent for agent in self._world.agents if agent.kind == "model")
        found = mentions.find_mentioned_agents(text, models)
        return [agent for agent in found if agent.id != by.id and not self.answers(agent)]

    def room_for(self, room_id: str, more: int) -> bool:
        """Whether so many more answers may come in a room."""
        running = tuple(self._running.values())  # also asked from the thread that writes
        coming = sum(one.turn.room_id == room_id for one in running)
        return coming + more <= MAX_ANSWERS_PER_ROOM

    def asked_by(self, room_id: str, agent_id: str | None = None) -> list[str]:
        """Who waits for the answers that are coming in a room, or for those of one model: ids of
        agents."""
        found = (
            running.behind or running.turn.opened_by
            for running in self._running.values()
            if running.turn.room_id == room_id and agent_id in (None, running.agent.id)
        )
        return list(dict.fromkeys(who for who in found if who is not None))

    def may_call(self, hops: int) -> bool:
        """Whether a model that was itself called over so many others may call one more."""
        return hops < self._limits.mention_hops

    def begin(
        self,
        turn: Turn,
        agent: Agent,
        question: Row,
        services: RequestServices,
        *,
        behind: str | None,
        hops: int = 0,
    ) -> None:
        """Answer a row, in a turn that is open and stored. `services` are those of the request
        that asks: the model's own calls carry them. `behind` is the person it all began with,
        `hops` how many models have called each other on the way."""
        answer = TurnLoop(
            self._deps,
            turn,
            agent,
            question,
            services,
            behind=behind,
            hops=hops,
            follower=self,
        )
        self._running[turn.id] = answer
        answer.start()

    async def break_off(self, turn_id: str) -> None:
        """Stop one turn, and return when it has ended. One that does not run is left as it is."""
        running = self._running.get(turn_id)
        if running is not None:
            running.stop()
            await self.ended(turn_id)

    async def ended(self, turn_id: str) -> None:
        """Return when a turn has ended and its last row is stored."""
        running = self._running.get(turn_id)
        if running is not None and running.task is not None:
            await asyncio.wait({running.task})

    def stop(
        self, room_id: str | None, *, agent_id: str | None = None, opened_by: str | None = None
    ) -> list[str]:
        """Stop turns of a room, or of all if it is None: of one agent, or opened by one person or
        begun with them, if given. Returns the names of those who were answering."""
        found = [
            running
            for running in self._running.values()
            if room_id in (None, running.turn.room_id)
            and agent_id in (None, running.agent.id)
            and opened_by in (None, running.turn.opened_by, running.behind)
        ]
        for running in found:
            running.stop()
        return [running.agent.name for running in found]

    async def endings(self, room_id: str) -> None:
        """Return when the turns of a room that were stopped have ended, or some seconds later."""
        tasks = {
            running.task
            for running in self._running.values()
            if running.turn.room_id == room_id and running.stopped and running.task is not None
        }
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT_SECONDS)

    async def close(self) -> None:
        """Stop every turn and wait until each has written its end."""
        left = tuple(self._running.values())
        for running in left:
            running.stop()
        tasks = [running.task for running in left if running.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def pass_on(self, tx: Change, answer: TurnLoop, row: Row) -> list[tuple[Turn, Agent]]:
        """Open turns for the models that a model's answer calls, as far as they may go on."""
        called = self.called(row.content, answer.agent)
        limit = ""
        if not self.may_call(answer.hops):
            limit = f"{self._limits.mention_hops + 1} models in a row is the limit"
        elif not self.room_for(answer.turn.room_id, len(called)):
            limit = f"{MAX_ANSWERS_PER_ROOM} answers at once is the limit of a room"
        if called and limit:
            answer.notice(tx, f"called {', '.join(agent.name for agent in called)}, but {limit}")
            return []
        opened = open_turns(tx, answer.turn.room_id, called, answer.agent.id)
        turns.set_request_row(tx, [turn.id for turn in opened], row)
        return list(zip(opened, called, strict=True))

    def go_on(self, answer: TurnLoop, row: Row | None, opened: list[tuple[Turn, Agent]]) -> None:
        """An answer has ended: begin those that it called."""
        self._running.pop(answer.turn.id, None)
        if row is not None:
            for turn, agent in opened:
                self.begin(
                    turn,
                    agent,
                    row,
                    answer.services,
                    behind=answer.behind,
                    hops=answer.hops + 1,
                )
