"""Texts that models read name tools as their list does, with its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

import pytest

from sshwarma.common.limits import MAX_CALLS_PER_STEP
from sshwarma.models.backend import OfferedTool, StepRequest, StreamPart, TextDelta, ToolCall
from sshwarma.verbs.registry import every_verb, tool_specs
from sshwarma.world import agents, things
from sshwarma.world.store import Change
from sshwarma.world.tool_names import model_tool_name
from support.house import House

WRONG_VALUES: Final[tuple[Any, ...]] = (
    "zzz", "nope", 0, 999_999, [], "sshwarma__look", "git__commit", "@zzz", "git", "me"
)  # fmt: skip
"""Values that hardly any argument takes, and names that a list of tools spells in its own way."""

SETTING: Final = (
    "/namespace new git Version control",
    "/create den", "/join lobby", "/note keep this", "a line to find", "x" * 9_000,
    "/run sshwarma:who", "/put todo = x", "/portal north den",
)  # fmt: skip

LOADABLE: Final = ("git__commit", "sshwarma__equip")
"""Tools that are not equipped, in namespaces that a call loads."""

COVERED: Final = tuple(
    model_tool_name(f"{spec.namespace}:{spec.name}") for spec in tool_specs() if spec.covered_by
)
"""Tools that are equipped and not offered, because another one does the same."""

_CALL: Final = re.compile(r"([a-z][\w.:]*) (\{\"[^{}]*\})")
_LISTED_ARGUMENTS: Final = re.compile(r".*Arguments: ([\w?, ]+)\..*")  # a refusal is one line
_FLAT_NAMES: Final = {verb.tool for verb in every_verb() if verb.tool}
_ACTIVE: Final = re.compile(
    r"(?<![\w:./@])(\w+) (?:lists?|shows?|loads?|reads?|sets?|equips?|switches|finds?|takes|brings"
    r"|goes|ends) "
)
_FOR_PEOPLE: Final = re.compile(
    r"HTTP|MCP|POST|SSH|A token|the scope|\bright\. |\(verb\)|(?:^|\s)/[a-z]|--[a-z]"
    r"|\bas in examine"
)


def add_commit_tool(tx: Change) -> None:
    git = things.find_by_qualified_name(tx.conn, "git")
    assert git is not None
    schema = {"type": "object", "properties": {}}
    metadata = {"input_schema": schema}
    things.create_thing(
        tx, git.id, "tool", "commit", qualified_name="git:commit", metadata=metadata
    )


def find_foreign_names(
    text: str, offers: dict[str, OfferedTool], called: str = ""
) -> Iterator[str]:
    """Yield names in a text that the list of tools lacks, and words for people.

    `called` is the tool whose result the text is.
    """
    for name, arguments in _CALL.findall(text):
        if name not in offers:
            yield f"{name} {arguments}"
            continue
        properties = offers[name].input_schema["properties"]
        own = {"zzz", *properties}  # the log also has the call that gave an unknown argument
        yield from (key for key in json.loads(arguments) if key not in own)
    if (refusal := _LISTED_ARGUMENTS.fullmatch(text)) and refusal[1] != "none":
        listed, properties = refusal[1], offers[called].input_schema["properties"]
        yield from (key for key in listed.replace("?", "").split(", ") if key not in properties)
    for name in re.findall(r"(?<![\w…])\w+__\w+\b(?!…)", text):  # whole ones: excerpts are cut
        if name not in offers and name not in (*LOADABLE, *COVERED):
            yield name
    yield from re.findall(r"\b(?:sshwarma|global|git):\w+", text)
    yield from (
        name for name in re.findall(r"\b[a-z]+_\w+\b", text) if name in _FLAT_NAMES - offers.keys()
    )
    yield from (name for name in _ACTIVE.findall(text) if name in _FLAT_NAMES)
    yield from _FOR_PEOPLE.findall(text)


def wrong_calls(offer: OfferedTool) -> Iterator[dict[str, Any]]:
    """Yield arguments for a tool: none, an unknown one, and each with wrong values."""
    yield {}
    yield {"zzz": 1}
    properties = offer.input_schema["properties"]
    required = offer.input_schema.get("required", ())
    for name in properties:
        for value in WRONG_VALUES:
            yield {**dict.fromkeys(required, "zzz"), name: value}


async def call_all(house: House, calls: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
    """Let the model make calls, a step a turn; return each with what it is sent."""
    told: list[tuple[str, str]] = []
    for start in range(0, len(calls), MAX_CALLS_PER_STEP):
        part = calls[start : start + MAX_CALLS_PER_STEP]

        async def answer(
            request: StepRequest, part: list[tuple[str, dict[str, Any]]] = part
        ) -> AsyncGenerator[StreamPart, None]:
            if request.steps:
                told.extend(
                    (f"{done.call.name} {json.dumps(done.call.arguments)}", done.text)
                    for done in request.completed_calls
                )
                yield TextDelta("done")
                return
            for number, (name, arguments) in enumerate(part):
                yield ToolCall(str(number), name, arguments)

        house.backend.script = answer
        await house.says("alice", "@qwen go on")
    return told


@pytest.mark.parametrize("is_builder", [False, True], ids=["called", "builder"])
async def test_texts_name_tools_and_arguments_as_the_list_has_them(
    house: House, is_builder: bool
) -> None:
    for line in SETTING:
        await house.says("alice", line)
    await house.world.change(add_commit_tool)
    if is_builder:
        qwen = house.world.agents.find("qwen").id
        await house.world.change(lambda tx: agents.update_agent(tx, qwen, role="member"))
        await house.says("alice", "/room builder qwen")
    await house.says("alice", "@qwen hello")
    offers = {offer.name: offer for offer in house.backend.asked[-1].tools}
    assert len(offers) == (25 if is_builder else 23)
    calls = [(name, {"n": 3}) for name in (*LOADABLE, "git:commit", "lok")]
    calls += [(name, given) for name, offer in offers.items() for given in wrong_calls(offer)]
    told = await call_all(house, calls)
    assert len(told) == len(calls)
    wrong = {
        f"{call} -> {text[:400]}": names
        for call, text in told
        if (names := list(find_foreign_names(text, offers, call.split()[0])))
    }
    (refused,) = (text for call, text in told if call == 'git__commit {"n": 3}')
    assert 'global__load_room {"room": "git"} loads its namespace' in refused
    assert not wrong, "\n".join(f"{names}: {told}" for told, names in wrong.items())
    for offer in offers.values():
        described = json.dumps(offer.input_schema)
        assert not list(find_foreign_names(f"{offer.description} {described}", offers)), offer
