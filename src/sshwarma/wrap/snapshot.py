"""The snapshot of a room that layer scripts read, as plain values.

Layer scripts are `wrap.lua` and `hook:wrap`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_CONTEXT_NAMESPACES
from sshwarma.world import namespaces
from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.loadout import Loadout
from sshwarma.world.mentions import split_addressees, strip_address, write_names_plainly
from sshwarma.world.names import COMMAND_PREFIX, TRIGGER_PREFIX
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row
from sshwarma.world.things import Thing
from sshwarma.wrap.window import Window

WRAP_SCRIPT_NAME: Final = "wrap.lua"
HOOK_NAME: Final = "hook:wrap"

MAX_CONTEXT_MODELS: Final = 20
"""Maximum number of names of other models in a context."""

HISTORY_TOOL: Final = "sshwarma:history"
LOAD_TOOL: Final = "global:load_room"

MAX_JOURNAL_ENTRY_CHARACTERS: Final = 300
"""Characters of an entry of the journal that is older than the log shown."""

MAX_OPEN_QUESTION_CHARACTERS: Final = 200
"""Characters of a question that another turn is answering; the log has the whole."""


def build_snapshot(
    caller: Caller,
    room: Room,
    load: Loadout,
    shown: Window,
    question: str,
    asker: str,
    tool_names: Mapping[str, str],
) -> dict[str, Any]:
    """Return the snapshot of a model's room that the layer scripts read.

    Names of agents are written without `@`, because models copy what they read.

    Args:
        caller: The model, in its room.
        room: The room.
        load: The model's loadout there.
        shown: The model's window of the log.
        question: Text of the question.
        asker: Name of the agent who asks.
        tool_names: The names of the tools that the model is offered, by label.
    """
    world, agent = caller.world, caller.agent
    data = [item.thing for item in load.data if _is_context_data(item.thing)]
    agent_names = {world.agents.name_of(p.agent_id) for p in world.presence.in_room(caller.room_id)}
    return {
        "agent": _agent_snapshot(agent),
        "room": _room_snapshot(room, world.agents),
        "equipped": [{"name": t.label, "content": t.content or t.uri or ""} for t in data],
        "log": {
            "count": len(shown.rows),
            "first": shown.rows[0].seq if shown.rows else 0,
            "last": shown.rows[-1].seq if shown.rows else 0,
        },
        "earlier_turns": shown.earlier_turns,
        "journal": [_journal_entry(world.agents, row) for row in shown.journal],
        "models": _other_models(world.agents, agent, room),
        "answering": _open_questions(world.agents, agent, shown),
        "here": sorted(agent_names | {asker} - {agent.name}),
        "clock": time.strftime("%Y-%m-%d %H:%M %Z"),
        "asker": asker,
        "question": write_names_plainly(strip_address(question, agent.name), world.agents),
        "tool_count": len(tool_names),
        "history_tool": tool_names.get(HISTORY_TOOL, ""),
        "load_tool": tool_names.get(LOAD_TOOL, ""),
    }


def unloaded_namespaces(
    conn: Connection, load: Loadout, held: Collection[str]
) -> list[dict[str, str]]:
    """Return namespaces with no equipped tool: name, description, missing states.

    Past MAX_CONTEXT_NAMESPACES the rest is counted.
    """
    loaded_ids = {item.thing.parent_id for item in load.tools}
    unloaded = []
    for space in namespaces.read_namespaces(conn):
        if space.tools and space.thing.enabled and space.thing.id not in loaded_ids:
            description = space.thing.description or space.title
            states = namespaces.missing_states(space.required_states, held)
            suffix = f" (needs {', '.join(states)})" if states else ""
            unloaded.append({"name": space.id, "description": description + suffix})
    if len(unloaded) > MAX_CONTEXT_NAMESPACES:
        note = f"{len(unloaded) - MAX_CONTEXT_NAMESPACES} more"
        unloaded[MAX_CONTEXT_NAMESPACES:] = [
            {"name": note, "description": "not listed: search for them"}
        ]
    return unloaded


def is_layer_script(name: str) -> bool:
    """Return whether a thing of that name is a layer script where it is equipped."""
    return name in (WRAP_SCRIPT_NAME, HOOK_NAME) or name.startswith(f"{HOOK_NAME}:")


def _is_context_data(thing: Thing) -> bool:
    """Return whether a thing is data for the context: no script and no command."""
    return not thing.name.startswith((HOOK_NAME, WRAP_SCRIPT_NAME, COMMAND_PREFIX, TRIGGER_PREFIX))


def _other_models(agents: AgentDirectory, own: Agent, room: Room) -> list[str]:
    """Return the names of the other models that may be asked in a room."""
    now = now_ms()
    names = sorted(
        agent.name
        for agent in agents
        if agent.kind == "model"
        and agent.id != own.id
        and not (agent.disabled or agent.retired)
        and not room.explain_silence(agent, now)
    )
    if len(names) > MAX_CONTEXT_MODELS:
        names[MAX_CONTEXT_MODELS:] = [f"{len(names) - MAX_CONTEXT_MODELS} more"]
    return names


def _open_questions(agents: AgentDirectory, own: Agent, shown: Window) -> list[dict[str, str]]:
    """Return the questions of the window that other turns are answering now."""
    rows = {row.id: row for row in shown.rows}
    questions = []
    for turn in shown.turns:
        row = rows.get(turn.request_row_id or "")
        if turn.status == "open" and row is not None:
            text = " ".join(row.content.split())[:MAX_OPEN_QUESTION_CHARACTERS]
            asker, asked = split_addressees(agents.name_author(row), text, agents)
            questions.append(
                {
                    "by": "you" if turn.agent_id == own.id else agents.name_of(turn.agent_id),
                    "asker": asker,
                    "text": write_names_plainly(asked, agents),
                }
            )
    return questions


def _journal_entry(agents: AgentDirectory, row: Row) -> dict[str, str]:
    text = row.content[:MAX_JOURNAL_ENTRY_CHARACTERS]
    return {
        "kind": row.kind.removeprefix("journal."),
        "author": agents.name_author(row),
        "text": write_names_plainly(text, agents),
    }


def _room_snapshot(room: Room, agents: AgentDirectory) -> dict[str, Any]:
    return {
        "name": room.name,
        "description": write_names_plainly(room.description, agents),
        "vibe": write_names_plainly(room.vibe, agents),
        "exits": [{"direction": way.direction, "to": way.to_name} for way in room.exits],
        "floor": [
            {"name": thing.name, "kind": thing.kind}
            for thing in room.bag
            if _is_context_data(thing)
        ],
    }


def _agent_snapshot(agent: Agent) -> dict[str, str]:
    return {"name": agent.name, "description": agent.description, "prompt": agent.prompt}
