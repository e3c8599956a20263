"""Calls of tools that cannot be used as they are now."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from sshwarma.lua_tools.provider import LuaToolProvider
from sshwarma.tools.call import Tools
from sshwarma.world.errors import Invalid
from sshwarma.world.schema import tool_calls
from sshwarma.world.world import World
from support.people import Someone, do


async def test_call_of_a_tool_that_broke_is_recorded_as_failed(
    world: World, tools: Tools, alice: Someone, den: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await do(alice, "/tool new echo", "-- @param text string\nreturn args.text")

    async def refuse(*args: Any) -> bool:
        raise Invalid("The folder cannot be used: SyntaxError.", hint="Mend it.")

    monkeypatch.setattr(LuaToolProvider, "refresh_tool", refuse)
    outcome = await tools.call(alice.caller, "den:echo", {"text": "hi"})
    assert (outcome.ending, outcome.text) == (
        "error", "The folder cannot be used: SyntaxError. Mend it.",
    )  # fmt: skip
    assert outcome.seq
    assert (await tools.call(alice.caller, "den:echo", {"other": 1})).ending == "error"
    query = select(tool_calls.c.status, tool_calls.c.args).where(tool_calls.c.tool_id == "den:echo")
    rows = await world.store.read(lambda conn: conn.execute(query).all())
    assert [row.status for row in rows] == ["error", "error"]
    assert [row.args for row in rows] == ['{"text": "hi"}', "{}"]
