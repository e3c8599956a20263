"""The calls of a step that are shown as running, and their progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from sshwarma.models.backend import StepRequest, StreamPart, TextDelta, ToolCall
from sshwarma.tools.provider import ToolResult
from sshwarma.verbs.tool_provider import VerbToolProvider
from sshwarma.world.caller import Caller
from sshwarma.world.events import ActiveTool, StreamUpdated
from sshwarma.world.things import Thing
from support.house import House
from support.kit_tool import equip_kit_tool


class WaitingProvider(VerbToolProvider):
    """A provider whose tools report that they wait, until they may end."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = asyncio.Event()

    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        assert caller.on_progress is not None
        caller.on_progress("It waits.")
        await self.may_end.wait()
        return ToolResult("done")


@pytest.mark.parametrize(
    "refused", [["no_tool", "no_other"], ["no_tool"], ["sshwarma__go"], ["sshwarma__who"]]
)
async def test_only_the_call_that_waits_is_shown_as_running(
    house: House, refused: list[str]
) -> None:
    provider = WaitingProvider()
    await equip_kit_tool(house, provider)

    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.completed_calls:
            yield TextDelta("done")
            return
        for name in refused:
            yield ToolCall(name, name, {})
        yield ToolCall("k", "kit__ask", {})
        for name in refused:
            yield ToolCall(f"{name}2", name, {"x": "y"})

    shown: list[tuple[ActiveTool, ...]] = []
    is_alone = asyncio.Event()

    def hear(event: Any) -> None:
        if isinstance(event, StreamUpdated):
            shown.append(event.active_tools)
            if event.active_tools == (ActiveTool("kit__ask", "It waits."),):
                is_alone.set()

    house.world.bus.on_room("lobby", hear)
    house.backend.script = script
    asking = asyncio.create_task(house.says("alice", "@qwen all"))
    try:
        await asyncio.wait_for(is_alone.wait(), 10)
    finally:
        provider.may_end.set()
        await asking
    reports = {tool.name for tools in shown for tool in tools if tool.report}
    assert reports == {"kit__ask"}
