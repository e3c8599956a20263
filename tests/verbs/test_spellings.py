"""Other words for an action, and what an action answers that changes nothing."""

from __future__ import annotations

import pytest

from sshwarma.verbs.registry import find_verb, tool_specs
from sshwarma.verbs.unknown_verb import unknown_verb_error
from sshwarma.verbs.views import draw_result
from sshwarma.world.reader import API_CLIENT, PERSON
from support.people import Someone, do, refused


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("model on", "model enable"),
        ("model off", "model disable"),
        ("skill add", "skill new"),
        ("skill delete", "skill remove"),
    ],
)
async def test_other_spelling_names_the_verb(alice: Someone, typed: str, name: str) -> None:
    assert find_verb(typed) is find_verb(name) is not None
    assert (await do(alice, f"/help {typed}")).name == name
    listed = (await do(alice, f"/help {typed.split()[0]}")).verbs
    assert any(usage.startswith(f"/{name} ") for usage, _ in listed)
    assert not any(usage.startswith(f"/{typed} ") for usage, _ in listed)
    path = typed.replace(" ", "_")
    hint = unknown_verb_error(path, API_CLIENT).hint_for(API_CLIENT)
    assert hint == f"Did you mean {name.replace(' ', '_')}?"
    assert unknown_verb_error(path, PERSON).hint_for(PERSON) == f"Did you mean /{name}?"


async def test_skill_is_made_and_removed_by_either_word(alice: Someone) -> None:
    spellings = (("add", "about", "delete"), ("new", "description", "remove"))
    for number, (new, flag, remove) in enumerate(spellings, 1):
        made = await do(alice, f"/skill {new} terse --{flag} 'short answers' = Be brief.")
        assert made.text == f"Made skill terse ({number}): 9 characters."
        assert (await do(alice, "/skill show terse")).description == "short answers"
        await do(alice, f"/skill edit terse --{flag}='shorter answers'")
        shown = await do(alice, "/skill show terse")
        assert (shown.description, shown.text) == ("shorter answers", "Be brief.")
        assert (await do(alice, f"/skill {remove} terse")).text == "Removed skill terse."
    hint = (await refused(alice, "/skill edit terse --abuot x")).hint_for(PERSON)
    assert hint.startswith("It has --description.")


def test_renamed_tools_keep_the_names_by_which_worlds_equipped_them() -> None:
    ids = {spec.id for spec in tool_specs()}
    assert {"tool_skill_add", "tool_skill_delete"} <= ids
    assert not {"tool_skill_new", "tool_skill_remove"} & ids


@pytest.mark.parametrize(
    ("family", "name", "words"),
    [
        ("tool", "sshwarma:look", {"enable": "enable", "disable": "disable"}),
        ("mcp", "holler", {"enable": "enable", "disable": "disable"}),
        ("model", "luna", {"enable": "enable", "disable": "disable"}),
        ("model", "luna", {"enable": "on", "disable": "off"}),
    ],
)
async def test_repeated_switch_says_that_it_is_so_already(
    alice: Someone, family: str, name: str, words: dict[str, str]
) -> None:
    if family == "mcp":
        await do(alice, "/mcp add holler -- true")
    if family == "model":
        await do(alice, "/model add luna ollama qwen3:8b")
    for action in ("disable", "enable"):
        line = f"/{family} {words[action]} {name}"
        assert "already" not in draw_result(await do(alice, line)).plain()
        assert (await do(alice, line)).text == f"{name} is already {action}d."
