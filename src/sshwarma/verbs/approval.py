"""Approvals of calls that wait for a person: `/approvals`, `/allow` and `/deny`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from sshwarma.common.limits import MAX_EXACT_INTEGER
from sshwarma.common.times import format_iso
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.tools.approval_people import may_approve
from sshwarma.tools.approvals import (
    Answer,
    WaitingApproval,
    shorten_reason,
    unknown_question_error,
)
from sshwarma.tools.written_arguments import write_arguments
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option
from sshwarma.verbs.log_rows import cut_long_text
from sshwarma.verbs.question_row import draw_arguments
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation, view
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Forbidden, NotFound
from sshwarma.world.ids import now_ms
from sshwarma.world.reader import next_call
from sshwarma.world.world import World


async def complete_approvals(request: CompletionRequest) -> list[Option]:
    """List the numbers of the calls that wait here, with their tools and who asks."""
    caller = request.caller
    waiting = services_of(caller).tools.approvals.list_in(caller.room_id)
    return [
        (str(one.number), f"{one.tool} for {_name_caller(caller.world, one)}") for one in waiting
    ]


async def complete_denial(request: CompletionRequest) -> list[Option]:
    """List the numbers that may stand before a reason; the reason is free text."""
    return [] if request.given else await complete_approvals(request)


Number: TypeAlias = Annotated[
    int, Arg("number", complete=complete_approvals), Field(ge=1, le=MAX_EXACT_INTEGER)
]

Reason: TypeAlias = Annotated[str, Arg("text", rest=True, complete=complete_denial)]


@dataclass(frozen=True, slots=True)
class ApprovalItem:
    """A call that waits for an approval: who asks for it, and since when.

    `only_by` is the person who alone can allow it, because a script asks in their name; else "".
    `may_allow` and `may_deny`: whether who reads this may.
    """

    number: int
    tool: str
    arguments: Mapping[str, Any]
    asked_by: str
    asked_at: str
    only_by: str = ""
    may_allow: bool = False
    may_deny: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalList:
    """The calls that wait for an approval in a room."""

    room: str
    waiting: tuple[ApprovalItem, ...]


@view(ApprovalList)
def draw_approval_list(result: ApprovalList) -> Block:
    """Draw each call with its arguments."""
    if not result.waiting:
        return block(line(f"No call waits for an approval in {result.room}."))
    lines: list[Line] = []
    for item in result.waiting:
        only = f": a script asks, and {item.only_by} alone can allow it" if item.only_by else ""
        head = (("heading", f"{item.number}  "), ("name", item.tool), f" for {item.asked_by}{only}")
        lines.append(line(*head))
        lines += draw_arguments(write_arguments(item.arguments).split("\n"), 3)
    return block(*lines)


def _name_caller(world: World, waiting: WaitingApproval) -> str:
    """Return who calls a tool, and for whom."""
    name = world.agents.name_of(waiting.asked_by)
    if waiting.asked_for == waiting.asked_by:
        return name
    return f"{name}, asked by {world.agents.name_of(waiting.asked_for)}"


@verb(
    "approvals",
    section="Tools",
    needs=Right.ENTER,
    tool=False,
    aside=True,
    examples=("/approvals",),
)
async def approvals(caller: Caller) -> ApprovalList:
    """List the calls of tools that wait for an approval here.

    A call waits where its tool needs one, as `run_command` does: until a person with the build
    right allows it. Nobody needs an approval for their own call who may give one. What a script
    asks in the name of a person is allowed by that person alone.
    """
    world, room = caller.world, await caller.room()
    for one in services_of(caller).tools.approvals.list_in(room.id):
        one.read_by.add(caller.agent.id)
    may_answer = may_approve(caller.agent, room)
    return ApprovalList(
        room.name,
        tuple(
            ApprovalItem(
                one.number,
                one.tool,
                one.arguments,
                _name_caller(world, one),
                format_iso(one.asked_at),
                world.agents.name_of(one.asked_for) if one.is_of_script else "",
                may_allow=may_answer and not _is_for_another(one, caller.agent),
                may_deny=may_answer,
            )
            for one in services_of(caller).tools.approvals.list_in(room.id)
        ),
    )


@verb(
    "allow",
    section="Tools",
    needs=Right.ENTER,
    tool=False,
    aside=True,
    examples=("/allow", "/allow 3"),
    scope=TokenScope.APPROVE,
)
async def allow(caller: Caller, number: Number | None = None) -> Confirmation:
    """Allow a call that waits for an approval.

    Needs the build right in the room where it waits. Everybody there sees who has allowed it. The
    first answer counts. A question of which the room shows only the beginning is allowed after
    `approvals` has shown you all of it.

    For people:
        F8 is this line without a number. Without a number it allows only what you see: a question
        that is on your screen from its first row to its last, drawn for its present size. Another
        is printed again, and the next F8 allows it; one that is longer than your screen needs its
        number.

    Args:
        number: its number, as the question says it (default: the only one that waits here).
    """
    waiting = await _find_waiting(caller, number, "allow")
    approvals = services_of(caller).tools.approvals
    if number is None and approvals.has_taken_a_place(waiting):
        raise Conflict(
            f"This question took the place of another just now: {waiting.tool}.",
            hint=next_call("If you have read it: {}", "allow", number=waiting.number),
        )
    text = waiting.question  # all of it, as the room reads it
    if text != cut_long_text(text) and caller.agent.id not in waiting.read_by:
        raise Conflict(
            f"The arguments of {waiting.tool} are longer than what the question shows.",
            hint=next_call("{} shows all of them; allow it after that.", "approvals"),
        )
    if number is None and caller.check_question is not None:
        caller.check_question(waiting.number)
    await approvals.answer(caller, waiting, Answer(caller.agent.id, True))
    return Confirmation(f"Allowed {waiting.tool}.")


@verb(
    "deny",
    section="Tools",
    needs=Right.ENTER,
    tool=False,
    aside=True,
    examples=("/deny", "/deny 3 use the staging database"),
    scope=TokenScope.APPROVE,
)
async def deny(
    caller: Caller, why: Reason | None = None, *, number: Number | None = None
) -> Confirmation:
    """Deny a call that waits for an approval.

    Needs the build right in the room where it waits. The model reads the reason.

    For people:
        F9 begins this line: type why, or nothing, and Enter. F8 is /allow at once. Both are for
        the only call that waits; F8 only for a question that is all on your screen.

    Args:
        why: the reason; the number may stand before it.
        number: its number, as the question says it (default: the only one that waits here).
    """
    first, _, rest = (why or "").strip().partition(" ")
    # Python refuses to read a number of thousands of digits.
    if number is None and first.isdecimal() and len(first) <= len(str(MAX_EXACT_INTEGER)):
        number, why = min(int(first), MAX_EXACT_INTEGER), rest
    waiting = await _find_waiting(caller, number, "deny")
    answer = Answer(caller.agent.id, False, shorten_reason(why or ""))
    await services_of(caller).tools.approvals.answer(caller, waiting, answer)
    return Confirmation(f"Denied {waiting.tool}.")


async def _find_waiting(caller: Caller, number: int | None, verb_name: str) -> WaitingApproval:
    """Return the call that is meant by a verb, if the caller may answer for its room.

    Raises:
        NotFound: if none waits in a room that the caller may know of, or several do and no number
            is given.
        Forbidden: if the caller is no person, or lacks the right.
    """
    approvals = services_of(caller).tools.approvals
    if number is None:
        here = approvals.list_in(caller.room_id)
        if not here:
            raise NotFound("No call waits here.")
        if len(here) > 1:
            calls = ", ".join(f"{one.number} ({one.tool})" for one in here)
            # The number is the first word of a reason, as people type it.
            given = {"number" if verb_name == "allow" else "why": str(here[0].number)}
            hint = next_call("Give the number of one: {}", verb_name, **given)
            raise NotFound(f"Several calls wait here: {calls}.", hint=hint)
        number = here[0].number
    waiting = approvals.find(number)
    room = await caller.with_room(waiting.room_id).room()
    if not caller.may_know_of(room, now_ms()):  # numbers are small: anybody could try all
        raise unknown_question_error(number)
    if caller.agent.kind != "person" or caller.call_stack is not None:
        raise Forbidden("Only a person can answer for an approval, and no script.")
    await caller.with_room(room.id).require(Right.BUILD, room)
    if not may_approve(caller.agent, room):
        raise Forbidden("Permission denied: needs the build right there.")
    if verb_name == "allow" and _is_for_another(waiting, caller.agent):
        name = caller.world.agents.name_of(waiting.asked_for)
        raise Forbidden(f"A script asks in the name of {name}, who alone can allow it.")
    return waiting


def _is_for_another(waiting: WaitingApproval, agent: Agent) -> bool:
    """Return whether a script asks in the name of another, who alone can allow it.

    Else who has planted a script could allow what it does in the name of another.
    """
    return waiting.is_of_script and agent.id != waiting.asked_for
