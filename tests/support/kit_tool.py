"""A namespace with one tool, which a provider of a test carries out."""

from __future__ import annotations

from typing import Any

from sshwarma.tools.provider import PROVIDER_KEY, ToolProvider, ToolResult
from sshwarma.verbs.dispatch import run_line
from sshwarma.world.things import Thing
from support.house import House
from support.people import make
from support.services import ProviderBase


class IdleProvider(ProviderBase):
    """A provider whose tools do nothing."""

    async def run(self, caller: Any, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult("done")


async def equip_kit_tool(house: House, provider: ToolProvider, **metadata: Any) -> Thing:
    """Equip the lobby with the tool `kit:ask`; return its namespace."""
    house.tools.register("kits", provider)
    space = await make(house.world, "mcps", "mcp", "kit", qualified_name="kit")
    await make(
        house.world, space.id, "tool", "ask", qualified_name="kit:ask",
        metadata={PROVIDER_KEY: "kits", **metadata},
    )  # fmt: skip
    await run_line(house.caller("alice"), "/equip room kit:ask")
    return space
