"""Other words for an action, and what an action answers that changes nothing."""

from __future__ import annotations

import pytest

from sshwarma.verbs.registry import find_verb
from sshwarma.verbs.unknown_verb import unknown_verb_error
from sshwarma.verbs.views import draw_result
from sshwarma.world.reader import API_CLIENT, PERSON
from support.people import Someone, do


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("model on", "model enable"),
        ("model off", "model disable"),
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
