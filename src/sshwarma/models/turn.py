"""The turn loop: a mention opens a turn, the backend streams, tools are called, until it stops.

What streams goes to the bus at once and then at most thirty times a second; rows are written when
they are final. A failure, a stop and a step too many end the turn with a row that says so.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import structlog

from sshwarma.models import state
from sshwarma.models.budget import Budget, Budgets, Limits, OverBudget
from sshwarma.models.draft import Draft
from sshwarma.models.opening import open_turns
from sshwarma.models.port import (
    Backend,
    BackendFailed,
    Call,
    Done,
    Message,
    Metered,
    Offer,
    Request,
    Step,
    Text,
    Thought,
    Usage,
    Waiting,
)
from sshwarma.models.steps import shortened
from sshwarma.settings import LimitSettings
from sshwarma.tools.call import Place, Tools
from sshwarma.tools.names import for_model
from sshwarma.world import drafts, mentions, rows, states, turns, usage
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Refused
from sshwarma.world.events import Row, StreamEnded, Streaming
from sshwarma.world.loadout import Item
from sshwarma.world.store import Change
from sshwarma.world.turns import Status, Turn
from sshwarma.world.world import World
from sshwarma.wrap.compose import Composed, Composer
from sshwarma.wrap.host import LuaError
from sshwarma.wrap.layers import CHARACTERS_PER_TOKEN
from sshwarma.wrap.told import MOST_CHARACTERS, clip

log = structlog.get_logger(__name__)

CALLS_AT_ONCE: Final = 8
"""Calls of one step that are carried out; the others are answered with a refusal."""

AT_ONCE: Final = 32
"""Answers that may be coming in one room; who asks for more is refused. It bounds what models
that call each other can set off."""

STALL_SECONDS: Final = 300.0
"""A backend that is silent this long is given up; each has shorter limits of its own."""

ENDING_SECONDS: Final = 5.0
"""How long whoever stops turns waits for their ends."""

FRAME_SECONDS: Final = 1 / 30

ANSWER_CHARACTERS: Final = 200_000
"""The longest answer; what comes after is cut."""

SENT: Final = 256
"""Contexts remembered, to tell what of the next one is the same."""


@dataclass(eq=False)
class _Running:
    """One turn while it runs."""

    turn: Turn
    agent: Agent
    question: Row
    behind: str | None  # the person it all began with
    draft: Draft
    hops: int = 0  # models that have called each other on the way here
    text: str = ""
    thought: str = ""
    written: int = 0  # characters in all, thoughts included
    doing: tuple[str, ...] = ()  # tools it waits for
    waiting: str = ""  # what else it waits for
    budget: Budget = field(default_factory=Budget)
    unpaid: tuple[Backend, Request] | None = None  # a step begun, and not counted yet
    since: float = field(default_factory=time.monotonic)
    told_at: float = 0.0
    timer: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None
    begun: bool = False  # whether its task does anything yet
    stopped: bool = False
    ending: bool = False  # whether its end is being written, which nothing interrupts
    offered: dict[str, int] = field(default_factory=dict)  # tools, in the order of their first step

    def stop(self) -> None:
        """Break it off, wherever it is. One that has not begun ends as soon as it does."""
        self.stopped = True
        if self.task is not None and self.begun and not self.ending:
            self.ending = True
            self.task.cancel()

    def in_order(self, tools: Iterable[Item]) -> list[Item]:
        """Tools by name; those that were loaded during the turn after all that were there before,
        so that a request begins as the one before it."""
        found = sorted(tools, key=lambda item: item.thing.label)
        for item in found:
            self.offered.setdefault(item.thing.id, len(self.offered))
        return sorted(found, key=lambda item: self.offered[item.thing.id])


class Turns:
    """The turns of a world. `backends` are by the id of the agent they answer for."""

    def __init__(
        self,
        world: World,
        tools: Tools,
        backends: Mapping[str, Backend],
        limits: LimitSettings,
        composer: Composer | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        self._world = world
        self._tools = tools
        self._backends = backends
        self._limits = limits
        self._composer = composer
        self._budgets = budgets or Budgets(world, lambda agent_id: Limits())
        self._running: dict[str, _Running] = {}
        self._sent: OrderedDict[tuple[str, str], Composed] = OrderedDict()

    def answers(self, agent: Agent) -> bool:
        """Whether a mention of the agent is answered by a backend."""
        return agent.id in self._backends and not agent.disabled

    def model_of(self, agent: Agent) -> str:
        """The name of the model that answers for an agent."""
        return self._backends[agent.id].model

    def budget_of(self, agent: Agent) -> int:
        """How many tokens a model takes in all; 0 for one that reads no context."""
        return self._backends[agent.id].context_tokens

    def sent(self, room_id: str, agent_id: str) -> Composed | None:
        """What a model was told last in a room, if that is still remembered."""
        return self._sent.get((room_id, agent_id))

    def called(self, text: str, by: Agent) -> list[Agent]:
        """The models that a text of somebody calls and that would answer."""
        models = (agent for agent in self._world.agents if agent.kind == "model")
        found = mentions.called(text, models)
        return [agent for agent in found if agent.id != by.id and self.answers(agent)]

    def silent(self, text: str, by: Agent) -> list[Agent]:
        """The models that a text of somebody calls and that do not answer now."""
        models = (agent for agent in self._world.agents if agent.kind == "model")
        found = mentions.called(text, models)
        return [agent for agent in found if agent.id != by.id and not self.answers(agent)]

    def room_for(self, room_id: str, more: int) -> bool:
        """Whether so many more answers may come in a room."""
        running = tuple(self._running.values())  # also asked from the thread that writes
        coming = sum(one.turn.room_id == room_id for one in running)
        return coming + more <= AT_ONCE

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
        self, turn: Turn, agent: Agent, question: Row, *, behind: str | None, hops: int = 0
    ) -> None:
        """Answer a row, in a turn that is open and stored. `behind` is the person it all began
        with, `hops` how many models have called each other on the way."""
        running = _Running(turn, agent, question, behind, Draft(self._world, turn.id), hops)
        self._running[turn.id] = running
        self._publish(running)
        running.task = asyncio.get_running_loop().create_task(self._run(running))

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
            await asyncio.wait(tasks, timeout=ENDING_SECONDS)

    async def close(self) -> None:
        """Stop every turn and wait until each has written its end."""
        left = tuple(self._running.values())
        for running in left:
            running.stop()
        tasks = [running.task for running in left if running.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, running: _Running) -> None:
        status: Status = "completed"
        note = ""
        running.begun = True
        try:
            if running.stopped:
                raise asyncio.CancelledError
            running.budget = await self._budgets.begin(running.agent.id)
            await running.budget.within(self._answer(running))
        except asyncio.CancelledError:
            status, note = "cancelled", "was stopped"
        except OverBudget as over:
            note = str(over)
        except (BackendFailed, Refused) as failed:
            note = f"could not {'go on' if running.text else 'answer'}: {failed}"
            if not running.text and not running.thought:
                running.unpaid = None  # it was not even begun
        except TimeoutError:
            note = f"said nothing for {STALL_SECONDS:.0f} s and was given up"
        except Exception:
            log.exception("a turn failed", agent=running.agent.name)
            note = "could not answer: something went wrong here"
        finally:
            running.ending = True
            if running.timer is not None:
                running.timer.cancel()
            await asyncio.shield(self._finish(running, status, note))

    async def _answer(self, running: _Running) -> None:
        """Ask and call until the backend is done."""
        backend = self._backends.get(running.agent.id)
        if backend is None:  # it was removed between the mention and now
            raise BackendFailed("it was removed")
        running.budget.check()
        composed = await self._compose(running, backend.context_tokens)
        steps: tuple[Step, ...] = ()
        while True:
            running.budget.step()
            try:
                calls = await self._step(running, backend, composed, steps)
            except BackendFailed as failed:
                if not failed.too_long or running.text:
                    raise
                # Told in fewer words, once; the steps of this turn too.
                composed = await self._compose(running, (composed.tokens or 2) // 2)
                steps = shortened(steps, whole=1, most=0)
                calls = await self._step(running, backend, composed, steps)
            if not calls:
                return
            said = running.text
            await self._say(running)
            running.budget.check()
            running.doing = tuple(call.name for call in calls)
            self._tell(running)
            steps += (Step(said, await self._call_all(running, calls)),)
            steps = shortened(steps)
            running.doing = ()
            self._tell(running)

    async def _step(
        self,
        running: _Running,
        backend: Backend,
        composed: Composed,
        steps: tuple[Step, ...],
    ) -> list[Call]:
        caller = self._caller(running)
        room = await caller.room()
        load = await self._world.loadout(room.id, caller.agent.id)
        offers = tuple(
            Offer(
                for_model(item.thing.label),
                item.thing.label,
                item.thing.description,
                item.thing.metadata.get("input_schema", {"type": "object"}),
            )
            for item in running.in_order(load.usable)
        )
        asker = self._world.agents.name_of(running.question.author_id)
        request = Request(
            room.name,
            asker,
            running.question.content,
            offers,
            steps,
            composed.system,
            tuple(Message(line.role, line.text) for line in composed.conversation),
        )
        calls: list[Call] = []
        running.unpaid = backend, request
        async with aclosing(backend.stream(request)) as stream:
            while True:
                async with asyncio.timeout(STALL_SECONDS):
                    part = await anext(stream, None)
                if part is None:
                    await self._keep_thought(running)
                    return calls
                running.waiting = ""
                if isinstance(part, (Text, Thought)):
                    running.written += len(part.delta)
                if isinstance(part, Text):
                    running.text = (running.text + part.delta)[:ANSWER_CHARACTERS]
                    self._tell(running)
                elif isinstance(part, Thought):
                    running.thought = (running.thought + part.delta)[:ANSWER_CHARACTERS]
                    self._tell(running)
                elif isinstance(part, Usage):
                    running.unpaid = None
                    await self._spend(running, backend.model, part)
                elif isinstance(part, Waiting):
                    running.waiting = f"waiting {math.ceil(part.seconds)} s ({part.why})"
                    self._tell(running)
                else:
                    calls.append(part)

    async def _compose(self, running: _Running, budget: int) -> Composed:
        """What the model is told, in about `budget` tokens; nothing if that is 0. What went wrong
        with a script is a notice in the room."""
        if budget == 0:
            return Composed(())
        if self._composer is None:
            raise BackendFailed("this server composes no context")
        question, caller = running.question, self._caller(running)
        asker = self._world.agents.name_of(question.author_id)
        try:
            composed = await self._composer.compose(
                caller, question.content, asker, question.seq, budget=budget
            )
        except LuaError as error:
            raise BackendFailed(f"its context could not be composed: {error}") from error
        for notice in composed.notices:
            await self._world.change(partial(self._notice, running=running, text=notice))
        self._sent[running.turn.room_id, running.agent.id] = composed
        self._sent.move_to_end((running.turn.room_id, running.agent.id))
        while len(self._sent) > SENT:
            self._sent.popitem(last=False)
        return composed

    async def _keep_thought(self, running: _Running) -> None:
        """Reasoning is a row of its own, which the room sees folded and no model sees."""
        text, running.thought = running.thought.strip(), ""
        if text:
            turn, agent_id = running.turn, running.agent.id
            await self._world.change(
                lambda tx: rows.append(
                    tx, turn.room_id, "thought", text, author_id=agent_id, turn_id=turn.id
                )
            )

    async def _spend(self, running: _Running, model: str, spent: Usage) -> None:
        turn = running.turn
        running.budget.spent(spent)
        await self._world.change(
            lambda tx: usage.record(
                tx,
                turn.room_id,
                running.agent.id,
                turn.id,
                model,
                spent.prompt_tokens,
                spent.completion_tokens,
                estimated=spent.estimated,
                cost=spent.cost,
            )
        )

    async def _pay(self, running: _Running) -> None:
        """Count a step that was broken off: its provider does, and says nothing of it."""
        if running.unpaid is None or running.waiting:
            return
        backend, request = running.unpaid
        if isinstance(backend, Metered):
            owed = backend.owed(request, running.thought + running.text)
            if owed is not None:
                await self._spend(running, backend.model, owed)

    @staticmethod
    def _notice(tx: Change, running: _Running, text: str) -> None:
        turn, agent_id = running.turn, running.agent.id
        rows.append(tx, turn.room_id, "notice", text, author_id=agent_id, turn_id=turn.id)

    async def _call_all(self, running: _Running, calls: list[Call]) -> tuple[Done, ...]:
        """Carry out a step's calls side by side. They and their results are rows in the order in
        which the model wrote them: one that is ready early waits for those before it."""
        places: list[Place] = []
        for _ in calls:
            places.append(Place(places[-1] if places else None))

        def report(at: int, text: str) -> None:
            doing = list(running.doing)
            if at < len(doing):
                doing[at] = f"{calls[at].name} {text}"
                running.doing = tuple(doing)
                self._tell(running)

        async def one(number: int, call: Call) -> Done:
            refusal = call.broken
            if number >= CALLS_AT_ONCE:
                refusal = f"At most {CALLS_AT_ONCE} tools can be called at once."
            try:
                outcome = await self._tools.call(
                    replace(self._caller(running), report=partial(report, number)),
                    call.name,
                    call.arguments,
                    turn_id=running.turn.id,
                    parent_row_id=running.question.id,
                    refusal=refusal,
                    place=places[number],
                )
            finally:
                places[number].leave()
            text = clip(outcome.text, MOST_CHARACTERS, outcome.seq)
            return Done(call, text, outcome.how != "result", outcome.seq)

        return tuple(await asyncio.gather(*(one(n, call) for n, call in enumerate(calls))))

    def _caller(self, running: _Running) -> Caller:
        agent = self._world.agents.get(running.agent.id) or running.agent
        return Caller(
            self._world,
            self._limits,
            agent,
            running.turn.room_id,
            "model",
            behind=running.behind,
            hops=running.hops,
        )

    # What people see of it.

    def _tell(self, running: _Running) -> None:
        """Publish what there is: at once if the last time is a frame ago, else when it will be."""
        wait = running.told_at + FRAME_SECONDS - time.monotonic()
        if wait <= 0:
            self._publish(running)
        elif running.timer is None:
            loop = asyncio.get_running_loop()
            running.timer = loop.call_later(wait, self._publish, running)

    def _publish(self, running: _Running) -> None:
        if running.timer is not None:
            running.timer.cancel()
            running.timer = None
        running.told_at = time.monotonic()
        turn, text = running.turn, state.visible(running.text)
        running.draft.show(text)
        self._world.bus.publish(
            Streaming(
                turn.room_id,
                turn.id,
                running.agent.id,
                text,
                running.since,
                round(running.written / CHARACTERS_PER_TOKEN),
                running.doing,
                running.waiting,
            )
        )

    async def _say(self, running: _Running) -> None:
        """Write what was said so far as a row, before its tool calls."""
        text, running.text = running.text.strip(), ""
        running.draft.end()
        if text:
            await self._world.change(lambda tx: self._reply(tx, running, text))
        self._publish(running)

    async def _finish(self, running: _Running, status: Status, note: str) -> None:
        turn, text = running.turn, running.text.strip()
        running.draft.end()

        def work(tx: Change) -> tuple[Row | None, list[tuple[Turn, Agent]]]:
            row = None
            if text:
                row = self._reply(tx, running, text, cut=status == "cancelled" or bool(note))
            if note:
                self._notice(tx, running, note)
            turns.close_turn(tx, turn.id, status)
            opened = [] if row is None or note else self._pass_on(tx, running, row)
            tx.emit(StreamEnded(turn.room_id, turn.id))
            return row, opened

        opened: list[tuple[Turn, Agent]] = []
        row: Row | None = None
        try:
            await self._pay(running)
            row, opened = await self._world.change(work)
        except Refused as refused:
            log.error("a turn could not be stored", agent=running.agent.name, error=str(refused))
            self._world.bus.publish(StreamEnded(turn.room_id, turn.id))
        finally:
            self._running.pop(turn.id, None)
        for next_turn, agent in opened:
            assert row is not None  # noqa: S101 - only a row opens turns
            self.begin(next_turn, agent, row, behind=running.behind, hops=running.hops + 1)

    def _pass_on(self, tx: Change, running: _Running, row: Row) -> list[tuple[Turn, Agent]]:
        """Open turns for the models that a model's answer calls, as far as they may go on."""
        called = self.called(row.content, running.agent)
        if called and not self.may_call(running.hops):
            names = ", ".join(agent.name for agent in called)
            self._notice(
                tx,
                running,
                f"called {names}, but {self._limits.mention_hops + 1} models in a row is the limit",
            )
            return []
        if called and not self.room_for(running.turn.room_id, len(called)):
            names = ", ".join(agent.name for agent in called)
            self._notice(
                tx,
                running,
                f"called {names}, but {AT_ONCE} answers at once is the limit of a room",
            )
            return []
        opened = open_turns(tx, running.turn.room_id, called, running.agent.id)
        turns.asked_by(tx, [turn.id for turn in opened], row)
        return list(zip(opened, called, strict=True))

    def _reply(self, tx: Change, running: _Running, text: str, *, cut: bool = False) -> Row | None:
        """Write a reply as a row, and keep the state it sets. None if it said nothing else."""
        reply = state.read(text)
        turn, agent = running.turn, running.agent
        drafts.forget(tx, turn.id)
        meta: dict[str, object] = {"cut": True} if cut else {}
        if reply.state is not None:
            states.write(tx, turn.room_id, agent.id, agent.name, reply.state)
            meta["state"] = reply.state
            if reply.cut:
                text = (
                    f"wrote notes longer than {state.MOST_CHARACTERS} characters, the most that are"
                    f" kept: the last {reply.cut} were cut"
                )
                self._notice(tx, running, text)
            if not reply.text:
                rows.append(
                    tx,
                    turn.room_id,
                    "notice",
                    "changed its notes",
                    author_id=agent.id,
                    turn_id=turn.id,
                    meta=meta,
                )
        if not reply.text:
            return None
        return rows.append(
            tx,
            turn.room_id,
            "chat",
            reply.text,
            author_id=agent.id,
            turn_id=turn.id,
            parent_row_id=running.question.id,
            meta=meta or None,
        )
