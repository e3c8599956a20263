"""The turn loop: a mention opens a turn, the backend streams, tools are called, until it stops.

What streams goes to the bus at once and then at most thirty times a second; rows are written when
they are final. A failure, a stop and a step too many end the turn with a row that says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from sshwarma.models.port import (
    Backend,
    BackendFailed,
    Call,
    Done,
    Message,
    Offer,
    Request,
    Step,
    Text,
    Thought,
    Usage,
)
from sshwarma.settings import LimitSettings
from sshwarma.tools.call import Tools
from sshwarma.tools.names import for_model
from sshwarma.world import rows, turns, usage
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Refused
from sshwarma.world.events import Row, StreamEnded, Streaming
from sshwarma.world.store import Change
from sshwarma.world.turns import Status, Turn
from sshwarma.world.world import World
from sshwarma.wrap.compose import Composed, Composer
from sshwarma.wrap.host import LuaError
from sshwarma.wrap.layers import CHARACTERS_PER_TOKEN

log = structlog.get_logger(__name__)

STEPS: Final = 12
"""Times a backend is asked in one turn; each but the last has called tools."""

CALLS_AT_ONCE: Final = 8
"""Calls of one step that are carried out; the others are answered with a refusal."""

STALL_SECONDS: Final = 300.0
"""A backend that is silent this long is given up; each has shorter limits of its own."""

FRAME_SECONDS: Final = 1 / 30

ANSWER_CHARACTERS: Final = 200_000
"""The longest answer; what comes after is cut."""


@dataclass(eq=False)
class _Running:
    """One turn while it runs."""

    turn: Turn
    agent: Agent
    question: Row
    text: str = ""
    thought: str = ""
    written: int = 0  # characters in all, thoughts included
    doing: tuple[str, ...] = ()  # tools it waits for
    since: float = field(default_factory=time.monotonic)
    told_at: float = 0.0
    timer: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None


class Turns:
    """The turns of a world. `backends` are by the id of the agent they answer for."""

    def __init__(
        self,
        world: World,
        tools: Tools,
        backends: Mapping[str, Backend],
        limits: LimitSettings,
        composer: Composer | None = None,
    ) -> None:
        self._world = world
        self._tools = tools
        self._backends = backends
        self._limits = limits
        self._composer = composer
        self._running: dict[str, _Running] = {}

    def answers(self, agent: Agent) -> bool:
        """Whether a mention of the agent is answered by a backend."""
        return agent.id in self._backends and not agent.disabled

    def model_of(self, agent: Agent) -> str:
        """The name of the model that answers for an agent."""
        return self._backends[agent.id].model

    def begin(self, turn: Turn, agent: Agent, question: Row) -> None:
        """Answer a row, in a turn that is open and stored."""
        running = _Running(turn, agent, question)
        self._running[turn.id] = running
        self._publish(running)
        running.task = asyncio.get_running_loop().create_task(self._run(running))

    async def ended(self, turn_id: str) -> None:
        """Return when a turn has ended and its last row is stored."""
        running = self._running.get(turn_id)
        if running is not None and running.task is not None:
            await asyncio.wait({running.task})

    def stop(
        self, room_id: str, *, agent_id: str | None = None, opened_by: str | None = None
    ) -> list[str]:
        """Stop turns of a room: of one agent, or opened by one person, if given. Returns the
        names of those who were answering."""
        found = [
            running
            for running in self._running.values()
            if running.turn.room_id == room_id
            and agent_id in (None, running.agent.id)
            and opened_by in (None, running.turn.opened_by)
        ]
        for running in found:
            if running.task is not None:
                running.task.cancel()
        return [running.agent.name for running in found]

    async def close(self) -> None:
        """Stop every turn and wait until each has written its end."""
        tasks = [running.task for running in self._running.values() if running.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, running: _Running) -> None:
        status: Status = "completed"
        note = ""
        try:
            note = await self._answer(running)
        except asyncio.CancelledError:
            status, note = "cancelled", "was stopped"
        except (BackendFailed, Refused) as failed:
            note = f"could not answer: {failed}"
        except TimeoutError:
            note = f"said nothing for {STALL_SECONDS:.0f} s and was given up"
        except Exception:
            log.exception("a turn failed", agent=running.agent.name)
            note = "could not answer: something went wrong here"
        finally:
            if running.timer is not None:
                running.timer.cancel()
            await asyncio.shield(self._finish(running, status, note))

    async def _answer(self, running: _Running) -> str:
        """Ask and call until the backend is done. Returns a note if it was not let finish."""
        backend = self._backends[running.agent.id]
        composed = await self._compose(running) if backend.needs_context else Composed(())
        steps: tuple[Step, ...] = ()
        for _ in range(STEPS):
            calls = await self._step(running, backend, composed, steps)
            if not calls:
                return ""
            said = running.text
            await self._say(running)
            running.doing = tuple(call.name for call in calls)
            self._tell(running)
            steps += (Step(said, await self._call_all(running, calls)),)
            running.doing = ()
            self._tell(running)
        return f"was stopped after {STEPS} steps"

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
            for item in sorted(load.usable, key=lambda item: item.thing.label)
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
        async with aclosing(backend.stream(request)) as stream:
            while True:
                async with asyncio.timeout(STALL_SECONDS):
                    part = await anext(stream, None)
                if part is None:
                    await self._keep_thought(running)
                    return calls
                if isinstance(part, (Text, Thought)):
                    running.written += len(part.delta)
                if isinstance(part, Text):
                    running.text = (running.text + part.delta)[:ANSWER_CHARACTERS]
                    self._tell(running)
                elif isinstance(part, Thought):
                    running.thought = (running.thought + part.delta)[:ANSWER_CHARACTERS]
                    self._tell(running)
                elif isinstance(part, Usage):
                    await self._spend(running, backend.model, part)
                else:
                    calls.append(part)

    async def _compose(self, running: _Running) -> Composed:
        """What the model is told; what went wrong with a script is a notice in the room."""
        if self._composer is None:
            raise BackendFailed("this server composes no context")
        question, caller = running.question, self._caller(running)
        asker = self._world.agents.name_of(question.author_id)
        try:
            composed = await self._composer.compose(caller, question.content, asker, question.seq)
        except LuaError as error:
            raise BackendFailed(f"its context could not be composed: {error}") from error
        for notice in composed.notices:
            await self._world.change(partial(self._notice, running=running, text=notice))
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

    @staticmethod
    def _notice(tx: Change, running: _Running, text: str) -> None:
        turn, agent_id = running.turn, running.agent.id
        rows.append(tx, turn.room_id, "notice", text, author_id=agent_id, turn_id=turn.id)

    async def _call_all(self, running: _Running, calls: list[Call]) -> tuple[Done, ...]:
        """Carry out a step's calls side by side; results keep the order of the calls."""

        async def one(call: Call) -> Done:
            if call.broken:
                return Done(call, call.broken, failed=True)
            outcome = await self._tools.call(
                self._caller(running),
                call.name,
                call.arguments,
                turn_id=running.turn.id,
                parent_row_id=running.question.id,
            )
            return Done(call, outcome.text, outcome.how != "result")

        many = f"At most {CALLS_AT_ONCE} tools can be called at once."
        refused = [Done(call, many, failed=True) for call in calls[CALLS_AT_ONCE:]]
        return (*await asyncio.gather(*map(one, calls[:CALLS_AT_ONCE])), *refused)

    def _caller(self, running: _Running) -> Caller:
        agent = self._world.agents.get(running.agent.id) or running.agent
        return Caller(self._world, self._limits, agent, running.turn.room_id, "model")

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
        turn = running.turn
        self._world.bus.publish(
            Streaming(
                turn.room_id,
                turn.id,
                running.agent.id,
                running.text,
                running.since,
                round(running.written / CHARACTERS_PER_TOKEN),
                running.doing,
            )
        )

    async def _say(self, running: _Running) -> None:
        """Write what was said so far as a row, before its tool calls."""
        text, running.text = running.text.strip(), ""
        if text:
            await self._world.change(lambda tx: self._append(tx, running, text))
        self._publish(running)

    async def _finish(self, running: _Running, status: Status, note: str) -> None:
        turn, text = running.turn, running.text.strip()

        def work(tx: Change) -> None:
            if text:
                self._append(tx, running, text, cut=status == "cancelled" or bool(note))
            if note:
                self._notice(tx, running, note)
            turns.close_turn(tx, turn.id, status)
            tx.emit(StreamEnded(turn.room_id, turn.id))

        try:
            await self._world.change(work)
        except Refused as refused:
            log.error("a turn could not be stored", agent=running.agent.name, error=str(refused))
            self._world.bus.publish(StreamEnded(turn.room_id, turn.id))
        finally:
            self._running.pop(turn.id, None)

    def _append(self, tx: Change, running: _Running, text: str, *, cut: bool = False) -> None:
        rows.append(
            tx,
            running.turn.room_id,
            "chat",
            text,
            author_id=running.agent.id,
            turn_id=running.turn.id,
            parent_row_id=running.question.id,
            meta={"cut": True} if cut else None,
        )
