"""A server of the newer protocol, made with the SDK, over stdio or HTTP.

It runs as `modern.py stdio` or `modern.py PORT`.
"""

from __future__ import annotations

import sys
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel

mcp = MCPServer("modern")


class Place(BaseModel):
    city: str
    days: int = 3


async def which(question: str) -> Place | Elicit[Place]:
    return Elicit(f"About {question}: where?", Place)


@mcp.tool()
async def weather(question: str, place: Annotated[Place, Resolve(which)]) -> str:
    """Asks where, then repeats the answer."""
    return f"{question} in {place.city} for {place.days} days"


@mcp.tool()
async def echo(text: str) -> str:
    """Gives back what it was sent."""
    return text


@mcp.tool()
async def steps(context: Context) -> str:
    """Reports how far it is."""
    for n in range(3):
        await context.report_progress(n + 1, 3, f"step {n + 1}")
    return "Three steps."


@mcp.tool()
async def grow(context: Context) -> str:
    """Adds a tool, and says so."""

    async def grown() -> str:
        """Was not there before."""
        return "grown"

    mcp.add_tool(grown)
    await context.notify_tools_changed()
    return "It has grown."


if sys.argv[1] == "stdio":
    mcp.run("stdio")
else:
    mcp.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
