"""The verb stop: stop the answers, calls and commands of a room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from sshwarma.common.shorten import shorten_name
from sshwarma.services import services_of
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option, complete_models
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import ASKER_RIGHT
from sshwarma.verbs.views import Confirmation
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.missing_rights import explain_granters
from sshwarma.world.open_requests import OpenRequest, wait_for_ends
from sshwarma.world.reader import next_call
from sshwarma.world.rooms import Room

STOP_TIMEOUT_SECONDS: Final = 5.0
"""Seconds to wait for stopped calls to end."""


async def complete_stoppable(request: CompletionRequest) -> list[Option]:
    """List the models, and the calls and commands that run here, by their numbers."""
    caller = request.caller
    work = caller.world.open_requests.list_work(caller.room_id)
    calls = [(str(one.number), _describe_work(caller, one)) for one in work]
    return [*calls, *await complete_models(request)]


Stoppable: TypeAlias = Annotated[str, Arg(complete=complete_stoppable)]
"""A model, or the number of a call or command."""


@verb(
    "stop",
    section="Talking",
    needs=Right.TALK,
    also_needs=(ASKER_RIGHT,),
    tool=False,
    examples=("/stop", "/stop @guide", "/stop 3"),
)
async def stop(caller: Caller, name: Stoppable | None = None) -> Confirmation:
    """Stop the answers of models, and the calls and commands of people.

    Stops what you asked for, from whichever terminal; an owner of the room stops that of everybody.

    For people:
        Ctrl-C does the same for answers, and for what runs in the terminal where it is pressed.
        /look shows the numbers of calls and commands, which clones and pushes of git are, too.
        Both can be typed while a command runs.

    Args:
        name: the model, or the number of a call or command (default: every model that answers
            here, and all calls and commands).
    """
    answering = services_of(caller).turns
    room = await caller.room()
    if name is not None and name.isdecimal():
        return await _stop_one(caller, room, name)
    agent_id = caller.world.agents.find_model(name).id if name else None
    may_stop_all = await ASKER_RIGHT.is_met(caller, room)
    work = [] if name else caller.world.open_requests.list_work(room.id)
    own_work = [one for one in work if may_stop_all or one.agent_id == caller.agent.id]
    stopped = answering.stop(
        room.id,
        agent_id=agent_id,
        opened_by=None if may_stop_all else caller.agent.id,
        by=caller.agent.name,
    )
    if not stopped and not own_work:
        await _refuse(caller, room, agent_id, work)
    ends = await _end_work(caller, own_work)
    await answering.wait_for_stopped(room.id)
    return ends.confirm(stopped)


@dataclass(frozen=True, slots=True)
class _Ends:
    """The calls and commands that were to be stopped, by how they ended."""

    stopped: list[str]
    late: list[str]
    done: list[str]

    def confirm(self, answers: Sequence[str] = ()) -> Confirmation:
        stopped = sorted({*answers, *self.stopped})
        sentences = [f"Stopped {', '.join(stopped)}."] if stopped else []
        if self.late:
            sentences.append(f"Not ended yet: {', '.join(self.late)}.")
        if self.done:
            sentences.append(f"Done before it was stopped: {', '.join(self.done)}.")
        return Confirmation(" ".join(sentences))


async def _end_work(caller: Caller, work: Sequence[OpenRequest]) -> _Ends:
    """Stop calls and commands, and wait for their ends."""
    names = [_describe_work(caller, one) for one in work]  # while they have one
    for one in work:
        one.stop(caller.agent.name)
    await wait_for_ends(work, STOP_TIMEOUT_SECONDS)
    ends = _Ends([], [], [])
    for name, one in zip(names, work, strict=True):
        if not one.has_ended.is_set():
            ends.late.append(name)
        else:
            (ends.stopped if one.stopped_by else ends.done).append(name)
    return ends


async def _stop_one(caller: Caller, room: Room, number: str) -> Confirmation:
    """Stop the one call or command with a number.

    Raises:
        NotFound: if none with that number runs in the room.
        Forbidden: if another agent made it, and the caller may not stop that.
    """
    work = caller.world.open_requests.list_work(room.id)
    found = next((one for one in work if str(one.number) == number), None)
    if found is None:
        raise NotFound(
            f"No call or command with the number {shorten_name(number)} runs here.",
            hint=next_call("{} shows what runs.", "look"),
        )
    by = caller.world.agents.name_of(found.agent_id)
    refusal = explain_granters(
        caller.world.agents, Right.MODERATE, room, f"for what is run by {by}"
    )
    await ASKER_RIGHT.require(caller, found.agent_id, room=room, refusal=refusal)
    return (await _end_work(caller, [found])).confirm()


async def _refuse(
    caller: Caller, room: Room, agent_id: str | None, work: list[OpenRequest]
) -> None:
    """Say that nothing runs, or whose it is.

    Raises:
        NotFound: if nothing runs.
        Forbidden: if only others run something.
    """
    find_name = caller.world.agents.name_of
    waiting = services_of(caller).turns.waiting_agent_ids(room.id, agent_id)
    if not waiting and not work:
        also = "" if agent_id else ", and no call or command runs"
        raise NotFound(f"No model is answering here now{also}.")
    kinds = {
        "the answers to": [find_name(one) for one in waiting],
        "what is run by": sorted({find_name(one.agent_id) for one in work}),
    }
    others = " and ".join(f"{kind} {' and '.join(names)}" for kind, names in kinds.items() if names)
    refusal = explain_granters(caller.world.agents, Right.MODERATE, room, f"for {others}")
    await ASKER_RIGHT.require(caller, room=room, refusal=refusal)


def _describe_work(caller: Caller, request: OpenRequest) -> str:
    if request.agent_id == caller.agent.id:
        return request.work
    return f"{request.work} of {caller.world.agents.name_of(request.agent_id)}"
