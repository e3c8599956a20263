"""The verb stop: stop the answers of models."""

from __future__ import annotations

from sshwarma.services import services_of
from sshwarma.verbs.arguments import ModelName
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import ASKER_RIGHT
from sshwarma.verbs.views import Confirmation
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound


@verb(
    "stop",
    section="Talking",
    needs=Right.TALK,
    also_needs=(ASKER_RIGHT,),
    tool=False,
    examples=("/stop", "/stop @guide"),
)
async def stop(caller: Caller, name: ModelName | None = None) -> Confirmation:
    """Stop the answers of models.

    Stops the answers that you asked for; an owner of the room stops those of everybody.

    For people:
        Ctrl-C does the same.

    Args:
        name: the model (default: every model that answers here).
    """
    answering = services_of(caller).turns
    room = await caller.room()
    agent_id = caller.world.agents.find_model(name).id if name else None
    opened_by = None if await ASKER_RIGHT.is_met(caller, room) else caller.agent.id
    stopped_names = answering.stop(
        room.id, agent_id=agent_id, opened_by=opened_by, by=caller.agent.name
    )
    if not stopped_names:
        waiting_ids = answering.waiting_agent_ids(room.id, agent_id)
        if not waiting_ids:
            raise NotFound("No model is answering here now.")
        names = " and ".join(caller.world.agents.name_of(waiting_id) for waiting_id in waiting_ids)
        refusal = caller.missing_right_error(Right.MODERATE, room, f"for the answers to {names}")
        await ASKER_RIGHT.require(caller, room=room, refusal=refusal)
    await answering.wait_for_stopped(room.id)
    return Confirmation(f"Stopped {', '.join(sorted(set(stopped_names)))}.")
