"""Approvals: calls of tools that wait until a person has read their arguments.

The question is a row of the room, so that everybody there sees it, and so is the answer. Nobody
answers for a model, and no model, script or token that is not meant for it can answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from cachetools import TTLCache
from sqlalchemy import Connection, func, select

from sshwarma.common.finish import finish
from sshwarma.common.limits import (
    APPROVAL_TIMEOUT_SECONDS,
    MAX_WAITING_APPROVALS,
    MAX_WAITING_APPROVALS_PER_PERSON,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_text
from sshwarma.tools.approval_people import (
    ApprovalDenied,
    check_people,
    find_person_id,
    is_approved_by_caller,
)
from sshwarma.tools.call_checks import check_after_wait
from sshwarma.tools.valid_wait import CheckOfCall, wait_while_valid
from sshwarma.tools.written_arguments import write_arguments
from sshwarma.world import calls, rows, things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, NotFound, WorldError
from sshwarma.world.ids import now_ms
from sshwarma.world.portable_sql import extract_integer
from sshwarma.world.presence import AgentConnection
from sshwarma.world.reader import next_call
from sshwarma.world.rooms import Room
from sshwarma.world.schema import rows as rows_table
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World

APPROVAL_KEY: Final = "approval"
"""Key of the metadata of a question's row: the number of the approval."""

ONLY_PERSON_KEY: Final = "approval_only_by"
"""The key of a row's metadata that holds the id of the person who alone can allow a call."""

OTHERS_WAIT_KEY: Final = "others_wait"
"""Key of the metadata of a question's row: whether others waited in its room, so that an answer
needs its number."""

ASKING_TURN_KEY: Final = "asking_turn"
"""Key of the metadata of the rows of a question and of its answer: the turn that waits, if any."""

READING_SECONDS: Final = 1.5
"""Seconds in which nobody can have read a question that took the place of another."""

MAX_REMEMBERED_ROOMS: Final = 1_000

log = structlog.get_logger(__name__)


_WAITING_HINT: Final = next_call("Ask again when some are answered; {} lists them.", "approvals")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question for an approval: who gave it, and why it denies."""

    agent_id: str | None
    is_allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WaitingApproval:
    """A call that waits for an approval.

    Attributes:
        number: by which it is answered.
        asked_by: the agent that calls the tool.
        asked_for: the person whom a model answers, or the agent itself.
        asked_at: in milliseconds since 1970.
        turn_id: the turn that waits for it, if a model calls the tool.
        call_id: its record; None for one that is not recorded.
        is_of_script: whether a script calls the tool in the name of `asked_for`, or asked the model
            that does: nobody else can allow it.
        read_by: agents that were shown all of the arguments of a long question.
        deciding: held while an answer or a withdrawal is recorded, so that only one is.
    """

    number: int
    room_id: str
    tool: str
    arguments: Mapping[str, Any]
    asked_by: str
    asked_for: str
    asked_at: int
    answer: asyncio.Future[Answer] = field(compare=False)
    deciding: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False)
    read_by: set[str] = field(default_factory=set, compare=False)
    turn_id: str | None = None
    call_id: str | None = None
    is_of_script: bool = False

    @property
    def question(self) -> str:
        """What is asked, which the room reads."""
        of_script = " for a script" if self.is_of_script else ""
        return f"asks to run {self.tool}{of_script}:\n{write_arguments(self.arguments)}"

    def append_notice(
        self,
        tx: Change,
        text: str,
        author_id: str | None = None,
        more: Mapping[str, Any] | None = None,
        origin: AgentConnection | None = None,
    ) -> None:
        """Add a notice about it to its room.

        `more` is metadata besides that of its turn. The terminal of `origin` does not show it.
        """
        meta = {} if self.turn_id is None else {ASKING_TURN_KEY: self.turn_id}
        meta |= more or {}
        rows.append_row(
            tx, self.room_id, "notice", text, author_id=author_id, meta=meta, origin=origin
        )


class Approvals:
    """The calls that wait for an approval now. They end with the server."""

    def __init__(self, world: World) -> None:
        """Ask the people of a world."""
        self._world = world
        self._waiting: dict[int, WaitingApproval] = {}
        self._newest = -1  # the number that was given last; -1 before it was read
        # Rooms where a question has ended just now.
        self._ended: TTLCache[str, bool] = TTLCache(MAX_REMEMBERED_ROOMS, READING_SECONDS)

    def __len__(self) -> int:
        return len(self._waiting)

    def list_in(self, room_id: str) -> list[WaitingApproval]:
        """Return what waits in a room, the oldest first."""
        return [waiting for waiting in self._waiting.values() if waiting.room_id == room_id]

    def find(self, number: int) -> WaitingApproval:
        """Return a call that waits.

        Raises:
            NotFound: if none has that number, or it has an answer already.
        """
        waiting = self._waiting.get(number)
        if waiting is None or waiting.answer.done():
            raise unknown_question_error(number)
        return waiting

    def has_taken_a_place(self, waiting: WaitingApproval) -> bool:
        """Return whether a question came a moment ago, just after another had ended.

        An answer without a number may be meant for the other.
        """
        is_new = now_ms() - waiting.asked_at < READING_SECONDS * 1000
        return is_new and waiting.room_id in self._ended

    async def require(self, caller: Caller, tool: Thing, arguments: Mapping[str, Any]) -> None:
        """Wait until a person allows a call; who may allow it need not be asked.

        Args:
            caller: who calls.
            tool: what is called.
            arguments: that it gets.

        Raises:
            ApprovalDenied: if somebody denies it, nobody can be asked, or nobody answers in
                APPROVAL_TIMEOUT_SECONDS.
            WorldError: if the caller may not call the tool any more, or it was changed meanwhile.
        """
        room = await caller.room()
        if is_approved_by_caller(caller, room):
            return
        asked = await self._read_definition(tool)

        async def check() -> None:
            await check_after_wait(caller)
            if caller.is_of_script:  # nobody else could answer
                check_people(caller, tool.label, await caller.room())
            if await self._read_definition(tool) != asked:
                raise Conflict(f"{tool.label} was changed after the question, so it was not run.")

        await self._wait_for_answer(caller, room, tool.label, arguments, check)
        await check()  # the answer may have come before the check after the last change

    async def _read_definition(self, tool: Thing) -> list[tuple[str, dict[str, Any]]]:
        """Return what decides what a call does: the tool and its namespace."""

        def read(conn: Connection) -> list[tuple[str, dict[str, Any]]]:
            found = [things.get_thing(conn, one) for one in (tool.id, tool.parent_id or "")]
            return [(thing.id, thing.metadata) for thing in found if thing is not None]

        return await self._world.store.read(read)

    async def _wait_for_answer(
        self,
        caller: Caller,
        room: Room,
        tool: str,
        arguments: Mapping[str, Any],
        check: CheckOfCall,
    ) -> None:
        check_people(caller, tool, room)
        person_id = find_person_id(caller)
        number = await self._take_number()  # before the limits, which must be those of now
        own = [one for one in self._waiting.values() if one.asked_for == person_id]
        if len(own) >= (limit := MAX_WAITING_APPROVALS_PER_PERSON):
            text = with_limit("Too many calls for you wait for an approval", limit)
            raise ApprovalDenied(f"{text}.", hint=_WAITING_HINT)
        if len(self.list_in(room.id)) >= MAX_WAITING_APPROVALS:
            text = with_limit("Too many calls wait for an approval here", MAX_WAITING_APPROVALS)
            raise ApprovalDenied(f"{text}.", hint=_WAITING_HINT)
        waiting = WaitingApproval(
            number, room.id, tool, arguments, caller.agent.id, person_id, now_ms(),
            asyncio.get_running_loop().create_future(),
            turn_id=caller.call_stack.turn_id if caller.call_stack else None,
            call_id=caller.call_stack.row_id if caller.call_stack else None,
            is_of_script=caller.is_of_script,
        )  # fmt: skip
        self._waiting[waiting.number] = waiting
        _extend_time(caller, APPROVAL_TIMEOUT_SECONDS)
        start = asyncio.get_running_loop().time()
        try:
            await self._ask(caller, waiting)
            if caller.on_progress is not None:
                caller.on_progress(f"Waiting for an approval: number {waiting.number}.")
            answer = await self._wait(waiting, check)
        except asyncio.CancelledError:
            await finish(self._withdraw(waiting))
            raise
        finally:
            del self._waiting[waiting.number]
            self._ended[waiting.room_id] = True
            waited = asyncio.get_running_loop().time() - start
            if caller.call_stack is not None:
                caller.call_stack.run.waited += waited
            _extend_time(caller, waited - APPROVAL_TIMEOUT_SECONDS)
        if not answer.is_allowed:
            raise ApprovalDenied(self._describe_denial(tool, answer))

    async def _take_number(self) -> int:
        """Return a number that no earlier question has, also of a server before.

        Else an answer to one of those would be for another call.
        """
        if self._newest < 0:
            found = await self._world.store.read(_read_newest_number)
            self._newest = max(self._newest, found)  # somebody else may have been first
        self._newest += 1
        return self._newest

    async def answer(self, caller: Caller, waiting: WaitingApproval, answer: Answer) -> None:
        """Answer a question; the first answer counts.

        Raises:
            NotFound: if it has an answer by now.
        """
        done = "allowed" if answer.is_allowed else "denied"
        because = f": {answer.reason}" if answer.reason else ""
        in_room = caller.with_room(waiting.room_id)

        def work(tx: Change) -> None:
            if answer.is_allowed:
                calls.set_call_status(tx, waiting.call_id, "running")
            text = f"{done} {waiting.tool} (approval {waiting.number}){because}"
            # Who answers reads it as the result of the answer.
            origin = caller.connection if caller.room_id == waiting.room_id else None
            waiting.append_notice(tx, text, caller.agent.id, origin=origin)

        async def record() -> None:
            async with waiting.deciding:
                self.find(waiting.number)  # no other answer may have come before this
                await in_room.change(work)
                waiting.answer.set_result(answer)

        await finish(record())  # an answer that is recorded counts, though its request is gone

    async def _ask(self, caller: Caller, waiting: WaitingApproval) -> None:
        meta: dict[str, Any] = {APPROVAL_KEY: waiting.number}
        if len(self.list_in(waiting.room_id)) > 1:
            meta[OTHERS_WAIT_KEY] = True
        if waiting.is_of_script:
            meta[ONLY_PERSON_KEY] = waiting.asked_for

        def work(tx: Change) -> None:
            calls.set_call_status(tx, waiting.call_id, "pending")
            waiting.append_notice(tx, waiting.question, caller.agent.id, meta)

        await self._world.change(work)

    async def _withdraw(self, waiting: WaitingApproval) -> bool:
        """Tell the room that a question needs no answer any more, unless it has one."""
        text = f"{waiting.tool} (approval {waiting.number}) is not asked for any more"
        async with waiting.deciding:
            if waiting.answer.done():
                return False
            waiting.answer.cancel()  # nobody can answer from now on
            try:
                await self._world.change(lambda tx: waiting.append_notice(tx, text))
            except WorldError as error:  # the room was deleted, or nothing can be stored
                log.warning("a withdrawn question was not told", reason=str(error))
        return True

    async def _wait(self, waiting: WaitingApproval, check: CheckOfCall) -> Answer:
        refusal = await wait_while_valid(self._world.bus, waiting.answer, check)
        if refusal is not None and await self._withdraw(waiting):
            raise refusal
        async with waiting.deciding:
            if waiting.answer.done():
                return waiting.answer.result()
            text = f"Nobody allowed {waiting.tool} (approval {waiting.number}): it is denied."
            await self._world.change(lambda tx: waiting.append_notice(tx, text))
            answer = Answer(None, is_allowed=False)
            waiting.answer.set_result(answer)
            return answer

    def _describe_denial(self, tool: str, answer: Answer) -> str:
        if answer.agent_id is None:
            minutes = APPROVAL_TIMEOUT_SECONDS / 60
            return f"{tool} was not run: nobody allowed it within {minutes:g} minutes."
        name = self._world.agents.name_of(answer.agent_id)
        because = f": {answer.reason}" if answer.reason else ""
        return f"{tool} was not run: {name} denied it{because}."


def unknown_question_error(number: int) -> NotFound:
    """Return the refusal of a number that no question has."""
    return NotFound(
        f"No call with the number {number} waits for an approval.",
        hint=next_call("{} lists those that do.", "approvals"),
    )


def _extend_time(caller: Caller, seconds: float) -> None:
    """Give a turn more time while it waits for a person; negative takes some back."""
    if caller.on_wait is not None:
        caller.on_wait(seconds)


def shorten_reason(text: str) -> str:
    """Return the beginning of a reason that a person gives."""
    return shorten_text(" ".join(text.split()))


def _read_newest_number(conn: Connection) -> int:
    """Return the highest number that a question in the log has, or 0.

    All rows are looked at, once: a number must not be given twice.
    """
    meta = rows_table.c.meta
    number = extract_integer(meta, APPROVAL_KEY)
    query = select(func.max(number)).where(
        rows_table.c.kind == "notice", meta.like(f'%"{APPROVAL_KEY}"%')
    )
    return conn.scalar(query) or 0
