"""One answer: the backend streams, tools are called, until it stops.

Rows are written when they are final. A failure, a stop and a step too many end the turn with a row
that says so.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import structlog

from sshwarma.models import notes_block
from sshwarma.models.backend import (
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
from sshwarma.models.budget import Budget, OverBudget
from sshwarma.models.live_answer import Shown
from sshwarma.models.truncate_results import shortened
from sshwarma.models.turn_deps import Means
from sshwarma.tools.call import Place
from sshwarma.tools.names import for_model
from sshwarma.world import drafts, notes, rows, turns, usage
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError
from sshwarma.world.events import Row, StreamEnded
from sshwarma.world.loadout import LoadoutItem
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn, TurnStatus
from sshwarma.wrap.compose import ModelContext
from sshwarma.wrap.host import LuaError
from sshwarma.wrap.transcript import MAX_RESULT_CHARACTERS, clip_text

log = structlog.get_logger(__name__)

CALLS_AT_ONCE: Final = 8
"""Calls of one step that are carried out; the others are answered with a refusal."""

STALL_SECONDS: Final = 300.0
"""A backend that is silent this long is given up; each has shorter limits of its own."""


class Follower(Protocol):
    """Whoever sees to what follows from an answer."""

    def pass_on(self, tx: Change, answer: Answer, row: Row) -> list[tuple[Turn, Agent]]:
        """Open turns for the models that a final answer calls."""

    def go_on(self, answer: Answer, row: Row | None, opened: list[tuple[Turn, Agent]]) -> None:
        """It has ended, and its last row is stored; those turns were opened with it."""


class Answer:
    """One turn while it runs. `behind` is the person it all began with, `hops` how many models have
    called each other on the way here."""

    def __init__(
        self,
        means: Means,
        turn: Turn,
        agent: Agent,
        question: Row,
        *,
        behind: str | None,
        hops: int,
        follower: Follower,
    ) -> None:
        self.turn = turn
        self.agent = agent
        self.behind = behind
        self.hops = hops
        self.stopped = False
        self.task: asyncio.Task[None] | None = None
        self._means = means
        self._world = means.world
        self._question = question
        self._follower = follower
        self._shown = Shown(means.world, turn)
        self._budget = Budget()
        self._unpaid: tuple[Backend, Request] | None = None  # a step begun, and not counted yet
        self._offered: dict[str, int] = {}  # tools, in the order of their first step
        self._begun = False  # whether the task does anything yet
        self._ending = False  # whether the end is being written, which nothing interrupts

    def start(self) -> None:
        """Begin, in a task of its own; the room sees so at once."""
        self._shown.publish()
        self.task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Break it off, wherever it is. One that has not begun ends as soon as it does."""
        self.stopped = True
        if self.task is not None and self._begun and not self._ending:
            self._ending = True
            self.task.cancel()

    async def _run(self) -> None:
        status: TurnStatus = "completed"
        note = ""
        self._begun = True
        try:
            if self.stopped:
                raise asyncio.CancelledError
            self._budget = await self._means.budgets.begin(self.agent.id)
            await self._budget.within(self._answer())
        except asyncio.CancelledError:
            status, note = "cancelled", "was stopped"
        except OverBudget as over:
            note = str(over)
        except (BackendFailed, WorldError) as failed:
            note = f"could not {'go on' if self._shown.text else 'answer'}: {failed}"
            if not self._shown.text and not self._shown.thought:
                self._unpaid = None  # it was not even begun
        except TimeoutError:
            note = f"said nothing for {STALL_SECONDS:.0f} s and was given up"
        except Exception:
            log.exception("a turn failed", agent=self.agent.name)
            note = "could not answer: something went wrong here"
        finally:
            self._ending = True
            self._shown.end()
            await asyncio.shield(self._finish(status, note))

    async def _answer(self) -> None:
        """Ask and call until the backend is done."""
        backend = self._means.backends.get(self.agent.id)
        if backend is None:  # it was removed between the mention and now
            raise BackendFailed("it was removed")
        self._budget.check()
        composed = await self._compose(backend.context_tokens)
        steps: tuple[Step, ...] = ()
        while True:
            self._budget.step()
            try:
                calls = await self._step(backend, composed, steps)
            except BackendFailed as failed:
                if not failed.too_long or self._shown.text:
                    raise
                # Told in fewer words, once; the steps of this turn too.
                composed = await self._compose((composed.tokens or 2) // 2)
                steps = shortened(steps, whole=1, most=0)
                calls = await self._step(backend, composed, steps)
            if not calls:
                return
            said = self._shown.text
            await self._say()
            self._budget.check()
            self._shown.do(*(call.name for call in calls))
            steps += (Step(said, await self._call_all(calls)),)
            steps = shortened(steps)
            self._shown.do()

    async def _step(
        self, backend: Backend, composed: ModelContext, steps: tuple[Step, ...]
    ) -> list[Call]:
        """Ask once. Returns the tools it calls."""
        request = await self._request(composed, steps)
        calls: list[Call] = []
        self._unpaid = backend, request
        async with aclosing(backend.stream(request)) as stream:
            while True:
                async with asyncio.timeout(STALL_SECONDS):
                    part = await anext(stream, None)
                if part is None:
                    await self._keep_thought()
                    return calls
                if isinstance(part, Waiting):
                    self._shown.wait(f"waiting {math.ceil(part.seconds)} s ({part.why})")
                    continue
                self._shown.wait("")
                if isinstance(part, Text):
                    self._shown.write(part.delta)
                elif isinstance(part, Thought):
                    self._shown.think(part.delta)
                elif isinstance(part, Usage):
                    self._unpaid = None
                    await self._spend(backend.model, part)
                else:
                    calls.append(part)

    async def _request(self, composed: ModelContext, steps: tuple[Step, ...]) -> Request:
        room = await self._caller().room()
        load = await self._world.loadout(room.id, self.agent.id)
        offers = tuple(
            Offer(
                for_model(item.thing.label),
                item.thing.label,
                item.thing.description,
                item.thing.metadata.get("input_schema", {"type": "object"}),
            )
            for item in self._in_order(load.usable)
        )
        return Request(
            room.name,
            self._world.agents.name_of(self._question.author_id),
            self._question.content,
            offers,
            steps,
            composed.system,
            tuple(Message(line.role, line.text) for line in composed.conversation),
        )

    def _in_order(self, tools: Iterable[LoadoutItem]) -> list[LoadoutItem]:
        """Tools by name; those that were loaded during the turn after all that were there before,
        so that a request begins as the one before it."""
        found = sorted(tools, key=lambda item: item.thing.label)
        for item in found:
            self._offered.setdefault(item.thing.id, len(self._offered))
        return sorted(found, key=lambda item: self._offered[item.thing.id])

    async def _compose(self, budget: int) -> ModelContext:
        """What the model is told, in about `budget` tokens; nothing if that is 0. What went wrong
        with a script is a notice in the room."""
        if budget == 0:
            return ModelContext(())
        if self._means.composer is None:
            raise BackendFailed("this server composes no context")
        question = self._question
        asker = self._world.agents.name_of(question.author_id)
        try:
            composed = await self._means.composer.compose(
                self._caller(), question.content, asker, question.seq, budget=budget
            )
        except LuaError as error:
            raise BackendFailed(f"its context could not be composed: {error}") from error
        for notice in composed.notices:
            await self._world.change(partial(self.notice, text=notice))
        self._means.sent.remember(self.turn.room_id, self.agent.id, composed)
        return composed

    async def _call_all(self, calls: list[Call]) -> tuple[Done, ...]:
        """Carry out a step's calls side by side. They and their results are rows in the order in
        which the model wrote them: one that is ready early waits for those before it."""
        places: list[Place] = []
        for _ in calls:
            places.append(Place(places[-1] if places else None))

        async def one(number: int, call: Call) -> Done:
            refusal = call.broken
            if number >= CALLS_AT_ONCE:
                refusal = f"At most {CALLS_AT_ONCE} tools can be called at once."

            def report(words: str) -> None:
                self._shown.report(number, f"{call.name} {words}")

            try:
                outcome = await self._means.tools.call(
                    replace(self._caller(), report=report),
                    call.name,
                    call.arguments,
                    turn_id=self.turn.id,
                    parent_row_id=self._question.id,
                    refusal=refusal,
                    place=places[number],
                )
            finally:
                places[number].leave()
            text = clip_text(outcome.text, MAX_RESULT_CHARACTERS, outcome.seq)
            return Done(call, text, outcome.how != "result", outcome.seq)

        return tuple(await asyncio.gather(*(one(n, call) for n, call in enumerate(calls))))

    def _caller(self) -> Caller:
        agent = self._world.agents.get(self.agent.id) or self.agent
        return Caller(
            self._world,
            self._means.limits,
            agent,
            self.turn.room_id,
            "model",
            behind=self.behind,
            hops=self.hops,
        )

    # What it costs.

    async def _spend(self, model: str, spent: Usage) -> None:
        self._budget.spent(spent)
        await self._world.change(
            lambda tx: usage.record_usage(
                tx,
                self.turn.room_id,
                self.agent.id,
                self.turn.id,
                model,
                spent.prompt_tokens,
                spent.completion_tokens,
                estimated=spent.estimated,
                cost=spent.cost,
            )
        )

    async def _pay(self) -> None:
        """Count a step that was broken off: its provider does, and says nothing of it."""
        if self._unpaid is None or self._shown.waiting:
            return
        backend, request = self._unpaid
        if isinstance(backend, Metered):
            owed = backend.owed(request, self._shown.thought + self._shown.text)
            if owed is not None:
                await self._spend(backend.model, owed)

    # What is left of it.

    async def _keep_thought(self) -> None:
        """Reasoning is a row of its own, which the room sees folded and no model sees."""
        text = self._shown.take_thought()
        if text:
            await self._world.change(lambda tx: self._append(tx, "thought", text))

    async def _say(self) -> None:
        """Write what was said so far as a row, before its tool calls."""
        text = self._shown.take_text()
        if text:
            await self._world.change(lambda tx: self._reply(tx, text))
        self._shown.publish()

    async def _finish(self, status: TurnStatus, note: str) -> None:
        """Write the end: what was said last, what went wrong, that it is over."""
        turn = self.turn

        def work(tx: Change) -> tuple[Row | None, list[tuple[Turn, Agent]]]:
            row = None
            if text:
                row = self._reply(tx, text, cut=status == "cancelled" or bool(note))
            if note:
                self.notice(tx, note)
            turns.close_turn(tx, turn.id, status)
            opened = [] if row is None or note else self._follower.pass_on(tx, self, row)
            tx.emit(StreamEnded(turn.room_id, turn.id))
            return row, opened

        row: Row | None = None
        opened: list[tuple[Turn, Agent]] = []
        try:
            await self._pay()
            text = self._shown.take_text()
            row, opened = await self._world.change(work)
        except WorldError as refused:
            log.error("a turn could not be stored", agent=self.agent.name, error=str(refused))
            self._world.bus.publish(StreamEnded(turn.room_id, turn.id))
        finally:
            self._follower.go_on(self, row, opened)

    def notice(self, tx: Change, text: str) -> None:
        """Say something of it to the room."""
        self._append(tx, "notice", text)

    def _reply(self, tx: Change, text: str, *, cut: bool = False) -> Row | None:
        """Write a reply as a row, and keep the state it sets. None if it said nothing else."""
        reply = notes_block.read(text)
        turn, agent = self.turn, self.agent
        drafts.delete_draft(tx, turn.id)
        meta: dict[str, object] = {"cut": True} if cut else {}
        if reply.state is not None:
            notes.write_notes(tx, turn.room_id, agent.id, agent.name, reply.state)
            meta["state"] = reply.state
            if reply.cut:
                self.notice(
                    tx,
                    f"wrote notes longer than {notes_block.MOST_CHARACTERS} characters, the most"
                    f" that are kept: the last {reply.cut} were cut",
                )
            if not reply.text:
                self._append(tx, "notice", "changed its notes", meta=meta)
        if not reply.text:
            return None
        return self._append(
            tx, "chat", reply.text, parent_row_id=self._question.id, meta=meta or None
        )

    def _append(
        self,
        tx: Change,
        kind: str,
        text: str,
        *,
        parent_row_id: str | None = None,
        meta: dict[str, object] | None = None,
    ) -> Row:
        return rows.append_row(
            tx,
            self.turn.room_id,
            kind,
            text,
            author_id=self.agent.id,
            turn_id=self.turn.id,
            parent_row_id=parent_row_id,
            meta=meta,
        )
