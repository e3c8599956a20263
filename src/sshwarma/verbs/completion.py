"""What Tab offers: by what the argument under the cursor is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import get_args

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_COMPLETIONS
from sshwarma.mcp.client import server_records
from sshwarma.settings import ModelKind
from sshwarma.terminal.completion import Candidate
from sshwarma.verbs import commands, namespaces
from sshwarma.verbs.context import STATE_ACTIONS
from sshwarma.verbs.inventory import list_equippable_tools
from sshwarma.verbs.model import MODEL_FIELDS
from sshwarma.verbs.preferences import PREFERENCES, load_help_topics
from sshwarma.verbs.registry import Parameter, Verb, every_verb, find_verb, verb_names
from sshwarma.verbs.turns import DEFAULT_LISTED_TURNS, make_turn_list_item
from sshwarma.world import skills, things, tokens, turns
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.names import DIRECTION_ABBREVIATIONS, OPPOSITE_DIRECTIONS
from sshwarma.world.namespaces import RETENTION_MODES

Option = tuple[str, str]
"""What is inserted, and a note on it."""


async def complete(caller: Caller, text: str, cursor: int) -> Sequence[Candidate]:
    """Candidates for the word that ends at the cursor, best known first."""
    before = text[:cursor]
    start = (
        max(
            before.rfind(" "),
            before.rfind("\n"),
            before.rfind(",") if before.startswith("/") else -1,
        )
        + 1
    )
    typed = before[start:]
    if before.startswith("/") and not before.startswith("//"):
        if " " not in before:
            options = [(f"/{name}", note) for name, note in await _verbs(caller)]
        else:
            options = await _arguments(caller, before[:start])
    elif typed.startswith("@"):
        options = _agents(caller, "@")
    else:
        return []
    lowered = typed.lower()
    found = [option for option in options if option[0].lower().startswith(lowered)]
    if not found and typed.startswith("@"):  # where a name will do, @NAME does too
        names = {agent.name for agent in caller.world.agents}
        options = [(f"@{word}", note) for word, note in options if word in names]
        found = [option for option in options if option[0].lower().startswith(lowered)]
    return [
        Candidate(word, word, note, start, space=True) for word, note in found[:MAX_COMPLETIONS]
    ]


async def _arguments(caller: Caller, before: str) -> list[Option]:
    first, *given = before.replace(",", ", ").split()
    verb = find_verb(caller.agent.aliases.get(first[1:].lower(), first).split()[0])
    if verb is None:
        return []
    options: list[Option] = []
    parameter = _parameter_at(verb, given)
    if parameter is not None:
        options = await _values(caller, verb, parameter, given)
    used = set(given)
    flags = [
        (f"--{option}", known.help)
        for option, known in verb.flags.items()
        if f"--{option}" not in used
    ]
    return options + flags


def _parameter_at(verb: Verb, given: list[str]) -> Parameter | None:
    """The parameter that the next word would be for."""
    waiting = list(verb.positional)
    skip = False
    for word in given:
        if skip:
            skip = False
        elif word.startswith("--"):
            flag = verb.flags.get(word.removeprefix("--").partition("=")[0])
            skip = flag is not None and not flag.boolean and "=" not in word
            if skip and word is given[-1]:
                return flag
        elif waiting and word == waiting[0].arg.particle:
            continue
        elif waiting and not waiting[0].arg.rest:
            waiting.pop(0)
    return waiting[0] if waiting else None


async def _values(
    caller: Caller, verb: Verb, parameter: Parameter, given: list[str]
) -> list[Option]:
    if parameter.choices:
        return [(choice, "") for choice in parameter.choices]
    match parameter.arg.what:
        case "room":
            return await _rooms(caller)
        case "exit":
            room = await caller.room()
            return [(way.direction, f"→ {way.to_name}") for way in room.exits]
        case "direction":
            return [(way, "") for way in (*DIRECTION_ABBREVIATIONS.values(), *OPPOSITE_DIRECTIONS)]
        case "agent" if verb.name == "model":
            return [] if given[:1] == ["add"] else [(name, "") for name in _models(caller)]
        case "agent":
            return _agents(caller, "@" if verb.name == "history" else "")
        case "thing":
            return await _things(caller)
        case "pattern":
            return await _patterns(caller, verb)
        case "tool":
            load = await caller.world.loadout(caller.room_id, caller.agent.id)
            return [(item.thing.label, item.thing.description) for item in load.tools]
        case "context":
            whole = [("all", "")] if verb.name == "inv" else []
            return [("room", "this room"), ("me", "yourself"), *whole, *_agents(caller, "@")]
        case "topic":
            return [
                *((name, "") for name in verb_names()),
                *((topic, "topic") for topic in load_help_topics()),
            ]
        case "setting":
            return [(name, known.help) for name, known in PREFERENCES.items()]
        case "namespace":
            return await _namespaces(caller, verb, given)
        case "state":
            return await _states(caller, given)
        case "word" if verb.name == "state":
            return [*((word, "") for word in STATE_ACTIONS), *_called(caller)]
        case "word" if verb.name == "namespace" and given[0] == "set":
            return [
                (word, f"as in {example}") for word, example in namespaces.FIELD_EXAMPLES.items()
            ]
        case "text" if verb.name == "namespace" and given[0] == "set" and len(given) == 3:
            return await _namespace_values(caller, verb, given)
        case "word" if verb.name == "model" and parameter.name == "field":
            known_words = {"add": get_args(ModelKind), "set": MODEL_FIELDS}
            return [(word, "") for word in known_words.get(given[0], ())]
        case "word" if verb.name == "mcp" and given:
            servers = await caller.world.memo("mcp servers", server_records.list_servers)
            return [(server.name, server.description) for server in servers]
        case "word" if verb.name in ("message", "branch") and given:
            return [] if given[0] == "list" else await _turns(caller)
        case "word" if verb.name == "skill" and given and given[0] not in ("list", "add"):
            known_skills = await caller.world.memo("skills", skills.read_skills)
            return [(skill.name, skill.description) for skill in known_skills]
        case "word" if verb.name == "context" and given:
            return _called(caller) if given[0] in ("show", "rebuild") else []
        case "command" if verb.name == "mcp" and given[:1] == ["approve"] and len(given) == 2:
            waiting = await caller.world.store.read(
                partial(server_records.list_pending_tools, name=given[1])
            )
            return [(tool.name, str(tool.metadata["obstacle"])) for tool in waiting]
        case "word" if verb.name == "token" and given[:1] == ["revoke"]:
            mine = await caller.world.store.read(
                lambda conn: tokens.read_live_tokens(conn, caller.agent.id)
            )
            return [(token.id, token.label) for token in mine]
        case "word" if verb.name == "set" and given:
            known = PREFERENCES.get(given[0])
            return [(value, "") for value in known.values] if known else []
        case _:
            return []


async def _turns(caller: Caller) -> list[Option]:
    """The turns of the room, newest first, by the ends of their ids."""

    def read(conn: Connection) -> list[Option]:
        return [
            (turn.short, listed.snippet)
            for turn in reversed(
                turns.read_newest_turns(conn, caller.room_id, DEFAULT_LISTED_TURNS)
            )
            for listed, _ in (make_turn_list_item(conn, caller, turn, on=True),)
        ]

    return await caller.world.store.read(read)


def _models(caller: Caller) -> list[str]:
    return sorted(agent.name for agent in caller.world.agents if agent.kind == "model")


def _called(caller: Caller) -> list[Option]:
    return [(f"@{name}", "") for name in _models(caller)]


async def _verbs(caller: Caller) -> list[Option]:
    return [
        *((known.name, known.summary) for known in every_verb()),
        *(
            (command.name, command.summary)
            for command in await commands.list_equipped_commands(caller)
        ),
        *sorted(caller.agent.aliases.items()),
    ]


async def _rooms(caller: Caller) -> list[Option]:
    now = now_ms()
    return [
        (room.name, room.description or room.vibe)
        for room in await caller.world.rooms()
        if room.listed_for(caller.agent, now)
    ]


def _agents(caller: Caller, prefix: str) -> list[Option]:
    here = {present.agent_id for present in caller.world.presence.in_room(caller.room_id)}
    known = sorted(caller.world.agents, key=lambda agent: (agent.id not in here, agent.name))
    return [
        (f"{prefix}{agent.name}", "here" if agent.id in here else "")
        for agent in known
        if not agent.disabled and agent.id != caller.agent.id
    ]


async def _things(caller: Caller) -> list[Option]:
    world = caller.world
    load = await world.loadout(caller.room_id, caller.agent.id)
    found = [(item.thing.label, item.thing.kind) for item in (*load.tools, *load.data)]
    for bag_id, note in ((caller.room_id, "here"), (caller.agent.id, "yours")):
        bag = await world.memo(
            ("bag things", bag_id),
            lambda conn, bag_id=bag_id: things.read_children(
                conn, bag_id, "data", "reference", limit=MAX_COMPLETIONS
            ),  # type: ignore[misc]
        )
        found += [(thing.name, note) for thing in bag]
    found += [(f"@{name}", note) for name, note in _agents(caller, "")]
    return list(dict(found).items())


async def _namespaces(caller: Caller, verb: Verb, given: list[str]) -> list[Option]:
    """Namespaces that this can be done to; of those that can be set, tools too."""
    found = await namespaces.list_namespaces(caller)
    if verb.name in ("load", "unload"):
        found = [one for one in found if one.loaded is (verb.name == "unload")]
    options = [(one.id, one.description or one.name) for one in found]
    if given and given[0] == "set":
        load = await caller.world.loadout(caller.room_id, caller.agent.id)
        options += [(item.thing.label, "tool") for item in load.tools]
    return options


async def _namespace_values(caller: Caller, verb: Verb, given: list[str]) -> list[Option]:
    """What a field of a namespace may be, where that is known."""
    match given[2]:
        case "auto_load" | "load_with_parent" | "enabled":
            return [("on", ""), ("off", "")]
        case "leave_out":
            return [(word, "") for word in RETENTION_MODES]
        case "parent":
            return [("-", "none"), *await _namespaces(caller, verb, [])]
        case _:
            return []


async def _states(caller: Caller, given: list[str]) -> list[Option]:
    """States that can be said to hold, or not to; else the models that keep notes."""
    held = await caller.world.states(caller.room_id)
    if given[:1] == ["add"]:
        every = await namespaces.list_namespaces(caller)
        wanted = {state: one.id for one in every for state in one.required_states}
        return [
            (state, f"needed by {name}")
            for state, name in sorted(wanted.items())
            if state not in held and not state.startswith("mcp:")
        ]
    if given[:1] == ["remove"]:
        return [(state, "") for state in sorted(held) if not state.startswith("mcp:")]
    return _called(caller) if given[:1] in (["show"], ["clear"]) else []


async def _patterns(caller: Caller, verb: Verb) -> list[Option]:
    load = await caller.world.loadout(caller.room_id, caller.agent.id)
    on = [(item.thing.label, item.thing.kind) for item in (*load.tools, *load.data)]
    if verb.name == "unequip":
        return on
    more = await list_equippable_tools(caller, load, MAX_COMPLETIONS)
    home = await caller.world.memo(
        ("bag things", "home"), lambda conn: things.read_children(conn, "home", "data", "reference")
    )
    names = [item.thing.label for item in more]
    spaces = sorted({name.split(":", 1)[0] for name in names if ":" in name})
    return [
        *((f"{space}:*", "all of it") for space in spaces),
        *((name, "") for name in names),
        *((f"home:{thing.name}", "from home") for thing in home),
        *(option for option in await _things(caller) if option[1] in ("here", "yours")),
    ]
