"""Calls that are stopped have a result, and early ones their own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from sshwarma.common.times import format_iso
from sshwarma.tools.call_position import CallPosition
from sshwarma.world.ids import now_ms
from sshwarma.world.store import Change
from support.house import House, house
from support.kit_tool import IdleProvider, equip_kit_tool
from support.waiting import until

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


async def test_early_result_has_its_own_time(house: House, kit: None) -> None:
    """Its rows come after those of the call before it, which still runs."""
    first = CallPosition()
    second = CallPosition(before=first)
    first.mark_begun()
    ended = asyncio.Event()
    second.on_result = ended.set
    call = asyncio.create_task(house.tools.call(house.caller("alice"), "kit:ask", {}, place=second))
    await ended.wait()
    until_ms = now_ms()
    await until(lambda: now_ms() > until_ms)
    first.release()
    await call
    found = await house.world.store.read(
        lambda conn: conn.execute(text("select finished_at from tool_calls")).scalars().one()
    )
    assert found <= format_iso(until_ms)
