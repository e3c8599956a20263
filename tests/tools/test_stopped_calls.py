"""Calls that are stopped have a result, at whatever moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from sshwarma.world.store import Change
from support.house import House, house
from support.kit_tool import IdleProvider, equip_kit_tool

__all__ = ["house"]


@pytest.fixture
async def kit(house: House) -> None:
    await equip_kit_tool(house, IdleProvider())


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
