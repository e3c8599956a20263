"""Whole turns over every wire whose provider says that the context is too long."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sshwarma.tools.provider import ToolResult
from sshwarma.world.caller import Caller
from sshwarma.wrap.host import LuaHost
from support.driver.aimock import Mock
from support.house import House, house, said_by
from support.provider_wires import Ask, Wire
from support.services import ProviderBase, make_composer

__all__ = ["house"]


class Long(ProviderBase):
    """Tools with long results."""

    async def run(self, caller: Caller, tool: Any, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult("look " * 4_000)


@pytest.mark.parametrize(
    ("words", "requests"), [("first too long", 2), ("then too long", 3), ("always too long", 2)]
)
async def test_turn_is_asked_again_once_with_a_shorter_context(
    house: House, mock: Mock, wire: Wire, backend: Ask, words: str, requests: int
) -> None:
    qwen = house.world.agents.find("qwen")
    house.backends[qwen.id] = backend(wire, mock.url, context_tokens=32_000)
    house.providers["internal"] = Long()
    host = await LuaHost.start()
    house.turns._deps = replace(house.turns._deps, composer=make_composer(house.world, host))
    await house.says("alice", "something long before: " + "words and more words " * 300)
    made = await house.says("alice", f"@qwen {words} {wire}")
    await host.close()
    asked = [entry["body"] for entry in mock.asked(f"{words} {wire}")]
    assert len(asked) == requests
    before, after = (len(json.dumps(body)) for body in asked[-2:])
    assert after < before - 2_000
    notices = [row.content for row in made if row.kind == "notice"]
    assert "was asked again with a shortened log" in notices[0]
    if words == "always too long":
        assert said_by(made, house, "qwen") == []
        assert notices[1].endswith(f"exceeds the context window of {wire.model}, even shortened")
    else:
        assert said_by(made, house, "qwen") == ["Now it fits."]
        assert len(notices) == 1
    if words == "then too long":
        assert "more characters of 20,000" in json.dumps(asked[-1])
