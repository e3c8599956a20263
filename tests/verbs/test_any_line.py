"""Any line is executed or refused: lines made from all verbs and odd words."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sshwarma.verbs import (
    arguments,
    equip,
    help,
    inventory,
    message,
    namespace,
    skill,
    state,
)
from sshwarma.verbs.registry import Parameter, every_verb, tool_specs
from sshwarma.verbs.set import complete_setting_values, complete_settings
from sshwarma.verbs.views import draw_result
from sshwarma.world.errors import NotFound, WorldError
from sshwarma.world.world import World
from support.people import Someone, arrive, do

NAMES = ["lobby", "den", "home", "note", "prompt:style", "sshwarma:look", "global:help", "skill:a"]


SPACES = ["kit", "kit.inner", "global", "sshwarma", "lobby", "sshwarma:look", "nowhere"]


STATES = ["dry", "mcp:none", "@bob", "project-loaded"]


PEOPLE = ["alice", "bob", "@bob", "qwen", "@nobody"]


TURNS = ["ffffff", "1"]


SENSIBLE: dict[Any, list[str]] = {
    arguments.complete_rooms: ["lobby", "den", "home", "nowhere"],
    arguments.complete_directions: ["north", "n", "up", "hatch"],
    arguments.complete_exits: ["north", "n", "up", "hatch"],
    arguments.complete_agents: [*PEOPLE, "5"],
    arguments.complete_mentions: [*PEOPLE, "5"],
    arguments.complete_models: PEOPLE,
    arguments.complete_model_mentions: [*PEOPLE, "dry"],
    arguments.complete_things: [
        *NAMES,
        "me:note",
        "home:note",
        "room:note",
        "@bob",
        "me",
        "room",
        "directs",
        "world",
    ],
    equip.complete_to_equip: [*NAMES, "sshwarma:*", "*", "home:*", "sshwarma:join,go", "[a]"],
    equip.complete_equipped: [*NAMES, "sshwarma:*", "*", "home:*", "sshwarma:join,go", "?"],
    arguments.complete_tools: [*NAMES, "look", "dice", "me:dice", "*", "sshwarma__look"],
    inventory.complete_inventory: ["room", "me", "all", "@bob"],
    arguments.complete_contexts: ["room", "me", "all", "@bob"],
    help.complete_topics: ["look", "start", "keys", "tool new"],
    complete_settings: ["plain", "start"],
    complete_setting_values: ["on", "off", "20", "x"],
    namespace.complete_namespaces: SPACES,
    namespace.complete_loaded: SPACES,
    namespace.complete_unloaded: SPACES,
    namespace.complete_settable: SPACES,
    namespace.complete_fields: [*namespace.FIELD_EXAMPLES, "nothing"],
    namespace.complete_field_values: ["on", "off", "-", "git", "SHORT 5", "OMIT"],
    state.complete_needed_states: STATES,
    state.complete_held_states: STATES,
    skill.complete_skills: ["a", "1", "skill:a", "b"],
    message.complete_turns: TURNS,
}
"""Words of the right sort, by what Tab would offer."""


BY_KIND = {
    "number": ["1", "20", "0.5", "0"],
    "time": ["30m", "7d", "2026-01-31", "2026-01-31T12:00Z"],
    "word": [*NAMES, "me", "room", "on", "off", "https://example.org/"],
    "command": ["https://example.org/mcp", "-- true --x", "--"],
    "text": ["words", "- ", '"a phrase" and more', "look look"],
}
"""Words of the right sort, where Tab offers nothing."""


ODD = ["", "=", "-", "--", "--n", "-1", "1e400", "nan", "inf", "9" * 25, "9" * 5000, "x" * 300, '"',
       "'", "\\", "\x00", "\x1b[2J", "\u202e", "é", "²", "https://[", "%", "a\nb"]  # fmt: skip


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A verb with arguments that are mostly of the right sort and sometimes anything."""
    left_out = ("ban", "mute", "unban", "unmute")
    verb = draw(st.sampled_from([verb for verb in every_verb() if verb.name not in left_out]))

    def word(parameter: Parameter) -> str:
        sensible = parameter.choices or SENSIBLE.get(
            parameter.arg.complete, BY_KIND[parameter.arg.kind]
        )
        source = draw(st.sampled_from([sensible, sensible, sensible, ODD, None]))
        return draw(st.sampled_from(source) if source else st.text(max_size=6))

    parts = [word(p) for p in verb.positional if p.required or draw(st.booleans())]
    for option, parameter in verb.flags.items():
        if draw(st.booleans()):
            parts.insert(0, f"--{option}" if parameter.boolean else f"--{option} {word(parameter)}")
    return " ".join([f"/{verb.name}", *parts])


async def stands(person: Someone) -> bool:
    try:
        await person.world.room(person.room_id)
    except NotFound:
        return False
    return True


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="module")
def crowd(
    runner: asyncio.Runner, newborn: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Someone]]:
    """Three people in a world that many lines are tried on."""
    path = tmp_path_factory.mktemp("fuzz") / "world.db"
    shutil.copyfile(newborn, path)

    async def begin() -> list[Someone]:
        world = await World.open(path, tool_specs())
        return [
            await arrive(world, "alice", role="owner"),
            await arrive(world, "bob"),
            await arrive(world, "qwen", kind="model", role="guest"),
        ]

    people = runner.run(begin())
    yield people
    runner.run(people[0].world.close())


@pytest.mark.long
@settings(
    max_examples=1000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(who=st.integers(0, 2), line=lines())
def test_any_line_is_executed_or_refused(
    runner: asyncio.Runner, crowd: list[Someone], who: int, line: str
) -> None:
    """Nothing that anybody types is ever a program error; all results can be drawn."""

    async def typed() -> None:
        person = crowd[who]
        if not await stands(person):
            person.world.presence.move(person.connection, "lobby")
        try:
            result = await do(person, line)
        except WorldError as refused:
            assert refused.message
        else:
            assert draw_result(result) is not None

    runner.run(typed())
