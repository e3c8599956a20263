"""Faults of layers, commands and triggers are reported where they are typed."""

from __future__ import annotations

import pytest

from sshwarma.verbs.views import render_for
from sshwarma.world.reader import PERSON
from support.people import Someone, do

BROKEN = 'function layer(s)\n  return "x"'
RIGHT = 'function layer(s)\n  return "x"\nend'


async def shown(who: Someone, line: str) -> str:
    return " ".join(render_for(PERSON, await do(who, line)).split())


@pytest.mark.parametrize("name", ["hook:wrap", "hook:wrap:bad", "wrap.lua"])
async def test_syntax_error_of_a_layer_script_is_said_at_once(
    alice: Someone, den: str, name: str
) -> None:
    made = await shown(alice, f"/put {name} = {BROKEN}")
    assert made.startswith(f"Made {name} in den")
    problem = f"{name} will not run until it is corrected. Lua syntax error: {name}:2:"
    assert problem in made
    assert BROKEN in (await do(alice, f"/examine {name}")).content, "the text is kept"
    assert problem in await shown(alice, f"/equip room {name}")
    assert problem in await shown(alice, f"/equip room {name}"), "also if it is equipped already"
    assert await shown(alice, f"/put {name} = {RIGHT}") == f"Changed {name} in den (34 bytes)."
    assert "corrected" not in await shown(alice, f"/equip room {name}")


async def test_other_texts_are_no_scripts(alice: Someone, den: str) -> None:
    for name in ("hook:wrapping", "prompt:style", "wrap.luau"):
        assert "syntax" not in await shown(alice, f"/put {name} = {BROKEN}")
        assert "syntax" not in await shown(alice, f"/equip room {name}")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("command:loop", "while true do end", "is a line to say and no script: let it begin with"),
        ("command:ask", "if true then return 1 end", "is a line to say and no script"),
        ("command:look", "-- mine", "command:look never runs: the verb look goes first."),
        ("command:bad", "return (", "will not run until it is corrected. Lua syntax error"),
        ("trigger:bad", "-- @on bogus", "will not run until it is corrected. Line 1 of the script"),
        ("trigger:bad", "-- @on row\nreturn (", "Lua syntax error: trigger:bad:2"),
    ],
)
async def test_fault_of_a_command_or_trigger_is_said_at_once(
    alice: Someone, den: str, name: str, text: str, told: str
) -> None:
    assert told in (await do(alice, f"/put {name} = {text}")).note
    assert told in (await do(alice, f"/equip room {name}")).broken


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("command:wave", "/me waves"), ("command:if", "if only I knew"), ("command:go1", "-- x"),
        ("command:while", "while you were away: hello"),
        ("prompt:x", "return ("),
    ],
)  # fmt: skip
async def test_right_texts_get_no_note(alice: Someone, den: str, name: str, text: str) -> None:
    assert (await do(alice, f"/put {name} = {text}")).note == ""
