"""Render plans of results of toolsets, and of MCP servers that they declare."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection
from typing_extensions import override

from sshwarma.sandbox.profile import WORKSPACE_PATH
from sshwarma.tools.arguments import get_input_schema
from sshwarma.tools.provider import ToolProvider, ToolResult
from sshwarma.toolsets.render_plan import RenderContext, fill_defaults, make_render_plan
from sshwarma.toolsets.renderers import FILE_RENDERERS
from sshwarma.toolsets.worker_process import TOOLSET_PATH
from sshwarma.workspaces.tree import Entry
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.caller import Caller
from sshwarma.world.overrides import Override, read_tool_override
from sshwarma.world.reader import Hint
from sshwarma.world.things import Thing


async def add_render_plan(
    workspaces: Workspaces,
    caller: Caller,
    tool: Thing,
    arguments: dict[str, Any],
    result: ToolResult,
    returned: Any,
) -> ToolResult:
    """Return a result with its render plan, if it has a renderer and no error.

    `returned` is the value of `$return`.
    """

    def read(conn: Connection) -> tuple[Override, Mapping[str, Entry] | None]:
        found = read_tool_override(conn, tool)
        if found.renderer not in FILE_RENDERERS:
            return found, None
        _, tree = workspaces.get_active(conn, caller.room_id)
        return found, tree

    decided, files = await caller.world.store.read(read)
    if decided.renderer is None or result.is_error:
        return result
    renderer: Any = decided.renderer
    plan = await asyncio.to_thread(
        make_render_plan,
        renderer,
        decided.renderer_config or {},
        fill_defaults(get_input_schema(tool), arguments),
        returned,
        RenderContext(caller.room_id, WORKSPACE_PATH, TOOLSET_PATH),
        files,
    )
    return replace(result, render_plan=plan)


class RenderedResults(ToolProvider):
    """A provider of MCP servers, with render plans for tools that have renderers."""

    def __init__(self, workspaces: Workspaces, provider: ToolProvider) -> None:
        """Let a provider carry out the tools."""
        self._workspaces = workspaces
        self._provider = provider

    @property
    @override
    def timeout_seconds(self) -> float | None:
        return self._provider.timeout_seconds

    @override
    def why_unavailable(self, tool: Thing) -> str:
        return self._provider.why_unavailable(tool)

    @override
    def unavailable_hint(self, tool: Thing) -> Hint:
        return self._provider.unavailable_hint(tool)

    @override
    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        result = await self._provider.run(caller, tool, arguments)
        returned = result.text if result.structured is None else result.structured
        return await add_render_plan(self._workspaces, caller, tool, arguments, result, returned)
