"""The verbs of `/notes`: what a model keeps about a room."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line, text_lines
from sshwarma.verbs.arguments import ModelMention
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import view
from sshwarma.verbs.wrap import find_model
from sshwarma.world import notes as world_notes
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.reader import next_call


@dataclass(frozen=True, slots=True)
class ModelNotes:
    """The notes that a model keeps in a room."""

    room: str
    agent: str
    text: str
    updated_at: int | None


@view(ModelNotes)
def draw_model_notes(result: ModelNotes) -> Block:
    """Draw the notes that a model keeps in a room."""
    if not result.text:
        return block(f"{result.agent} keeps no notes in {result.room}.")
    return block(
        line(("heading", f"Notes of {result.agent} in {result.room}:")),
        *text_lines(result.text, indent=2),
    )


notes = group(
    "notes",
    section="Models",
    default="show",
    default_takes_words=True,
    doc="""Show and clear the notes that a model keeps in this room.

    A model writes its notes at the end of an answer and is sent them with every question. States of
    the room, which tools require, are another thing: /state list.
    """,
)


@notes.verb(
    "show", needs=Right.ENTER, tool=False, examples=("/notes", "/notes @qwen", "/notes show @qwen")
)
async def show_notes(caller: Caller, model: ModelMention | None = None) -> ModelNotes:
    """Show the notes that a model keeps in this room.

    Args:
        model: the model (default: the one that answered last here).
    """
    return await _read_notes(caller, await _find_model(caller, model))


@notes.verb("clear", needs=Right.BUILD, tool=False, examples=("/notes clear", "/notes clear @qwen"))
async def clear_notes(caller: Caller, model: ModelMention | None = None) -> ModelNotes:
    """Empty the notes that a model keeps in this room.

    Args:
        model: the model (default: the one that answered last here).
    """
    agent = await _find_model(caller, model)
    await caller.change(
        lambda tx: world_notes.write_notes(tx, caller.room_id, agent.id, agent.name, ""),
        f"cleared {agent.name}'s notes",
    )
    return await _read_notes(caller, agent)


async def _find_model(caller: Caller, name: str | None) -> Agent:
    """Find a model like `find_model`.

    A refusal names the verbs of a state, if that is meant.
    """
    try:
        return await find_model(caller, name)
    except (NotFound, Invalid) as error:
        if name is not None and name in await caller.world.states(caller.room_id):
            error.hints += (next_call("{} removes the state.", "state remove", name=name),)
        error.hints += (next_call("{} shows the states of this room.", "state list"),)
        raise


async def _read_notes(caller: Caller, agent: Agent) -> ModelNotes:
    room = await caller.room()
    thing = await caller.world.store.read(
        lambda conn: world_notes.get_notes_thing(conn, room.id, agent.name)
    )
    text = (thing.content or "") if thing else ""
    return ModelNotes(room.name, agent.name, text, thing.updated_at if thing else None)
