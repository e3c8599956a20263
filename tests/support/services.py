"""Services of a world without doors: real parts, but no models and programs."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sshwarma.common.limits import CALL_TIMEOUT_SECONDS
from sshwarma.hooks.outgoing import Hooks
from sshwarma.lua_tools.provider import LUA_PROVIDER, SCRIPT_LIMITS, LuaToolProvider
from sshwarma.mcp.client.hub import Hub
from sshwarma.mcp.client.link import LinkLost, ServerLink
from sshwarma.models.budget import ModelBudgets
from sshwarma.models.roster import Roster
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.sandbox.host import SandboxHost
from sshwarma.services import Services
from sshwarma.settings import ReloadableSettings
from sshwarma.tools.call import Tools
from sshwarma.tools.provider import ToolProvider
from sshwarma.tools.search import NamespaceSearch
from sshwarma.toolsets.toolsets import Toolsets
from sshwarma.verbs.tool_provider import make_verb_providers
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.runs import WorkspaceRuns
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.projects import ProjectPaths
from sshwarma.world.things import Thing
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer
from sshwarma.wrap.host import LuaError, LuaHost
from support.sandboxes import ACCOUNTS

_services: dict[World, Services] = {}


class NoLua(LuaHost):
    """A Lua host without processes: every script fails."""

    async def run(self, *scripts: Any, **more: Any) -> Any:
        raise LuaError("No Lua runs in this test.")


@asynccontextmanager
async def dial_nobody(*args: Any) -> AsyncIterator[ServerLink]:
    """Connect to no MCP server, and start none."""
    raise LinkLost("this test has no servers")
    yield


class ProviderBase(ToolProvider):
    """Base of providers that tests make: a subclass adds `run`."""

    timeout_seconds = CALL_TIMEOUT_SECONDS

    def why_unavailable(self, tool: Thing) -> str:
        return ""

    def unavailable_hint(self, tool: Thing) -> str:
        return ""


def verb_providers() -> dict[str, ToolProvider]:
    """The providers of the verbs that are tools."""
    return make_verb_providers()


TEST_FILES = Path(tempfile.gettempdir()) / "sshwarma-tests"


def make_composer(world: World, host: LuaHost) -> ContextComposer:
    """A composer for a world whose rooms use one project."""
    return ContextComposer(host, ProjectPaths(world, TEST_FILES, is_pinned=True))


def make_services(world: World, **parts: Any) -> Services:
    """Services with the given `parts`, and an idle one for each that is left out.

    An idle part does nothing: no model answers, the hub reaches no server, and every Lua script
    fails.
    """
    tools = parts.get("tools") or Tools(world, verb_providers())
    lua = NoLua(SCRIPT_LIMITS)
    lua_tools = parts.get("lua_tools")
    if lua_tools is None:
        lua_tools = LuaToolProvider(lua, tools)
        tools.register(LUA_PROVIDER, lua_tools)
    roster = parts.get("roster")
    if roster is None:
        roster = Roster(world, {}, TEST_FILES / "models")
    budgets = parts.get("budgets") or ModelBudgets(world, roster.limits)
    projects = parts.get("projects") or ProjectPaths(world, TEST_FILES, is_pinned=True)
    composer = parts.get("composer") or ContextComposer(lua, projects)
    settings = ReloadableSettings()
    workspaces = Workspaces(world, BlobStore(TEST_FILES / "blobs"))
    sandbox = SandboxHost(ACCOUNTS, TEST_FILES, TEST_FILES / "devices")
    runs = WorkspaceRuns(workspaces, sandbox, TEST_FILES / "workspaces")
    hub = Hub(world, TEST_FILES / "mcp", dial=dial_nobody)
    idle: dict[str, Any] = {
        "tools": tools,
        "lua_tools": lua_tools,
        "composer": composer,
        "roster": roster,
        "budgets": budgets,
        "turns": TurnRunner(world, tools, roster, settings, composer, budgets),
        "hub": hub,
        "search": NamespaceSearch(),
        "settings": settings,
        "workspaces": workspaces,
        "runs": runs,
        "toolsets": Toolsets(world, runs, hub.bundled, TEST_FILES),
        "projects": projects,
        "hooks": Hooks(world),
    }
    return Services(**idle | parts)


def use_services(world: World, **parts: Any) -> Services:
    """Make services, which all who act in the world from now on carry."""
    made = _services[world] = make_services(world, **parts)
    return made


def services_in(world: World) -> Services:
    """Services that the agents of a world use; idle ones if a test made none."""
    return _services.get(world) or use_services(world)


async def close_services(world: World) -> None:
    """End what the services of a world have begun, and let go of them."""
    services = _services.pop(world, None)
    if services is not None:
        await services.hooks.close()
        await services.turns.close()
        await services.roster.close()
        await services.hub.close()
