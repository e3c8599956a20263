"""Room commands for tests."""

from __future__ import annotations

from support.people import Someone, do


async def command(who: Someone, name: str, text: str, where: str = "room") -> None:
    bag = "me:" if where == "me" else ""
    await do(who, f"/put {bag}command:{name} =", text)
    await do(who, f"/equip {where} {'me:' if where == 'me' else ''}command:{name}")
