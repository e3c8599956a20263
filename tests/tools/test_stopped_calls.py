"""Calls that are stopped have a result, at whatever moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from sshwarma.tools.provider import PROVIDER_KEY, ToolResult
from sshwarma.verbs.dispatch import run_line
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from support.house import House, house
from support.people import make
from support.services import ProviderBase

__all__ = ["house"]


class KitProvider(ProviderBase):
    """A provider whose tools do nothing."""

    async def refresh_tool(self, caller: Any, tool: Thing) -> bool:
        return False

    async def run(self, caller: Any, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult("done")


@pytest.fixture
async def kit(house: House) -> None:
    house.tools.register("kits", KitProvider())
    space = await make(house.world, "mcps", "mcp", "kit", qualified_name="kit")
    await make(
        house.world, space.id, "tool", "ask", qualified_name="kit:ask",
        metadata={PROVIDER_KEY: "kits"},
    )  # fmt: skip
    await run_line(house.caller("alice"), "/equip room kit:ask")


async def test_call_stopped_while_its_start_is_recorded_has_an_ending(
    house: House, kit: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = house.world.store.write
    stops = [True]

    async def stop(work: Callable[[Change], Any], *, may_postpone: bool = False) -> Any:
        if stops:
            stops.clear()
            asyncio.get_running_loop().call_soon(call.cancel)
        return await change(work, may_postpone=may_postpone)

    monkeypatch.setattr(house.world.store, "write", stop)
    call = asyncio.create_task(house.tools.call(house.caller("alice"), "kit:ask", {}))
    with pytest.raises(asyncio.CancelledError):
        await call
    found = await house.world.store.read(
        lambda conn: conn.execute(text("select status from tool_calls")).scalars().all()
    )
    assert found == ["error"]
