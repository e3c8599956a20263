"""Services of a world without doors, models, MCP servers and Lua processes."""

from __future__ import annotations

from pathlib import Path

from sshwarma.hooks.outgoing import Hooks
from sshwarma.lua_tools.provider import SCRIPT_LIMITS, LuaToolProvider
from sshwarma.mcp.client.hub import Hub
from sshwarma.models.budget import ModelBudgets
from sshwarma.models.roster import Roster
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.sandbox.host import SandboxHost
from sshwarma.services import Services
from sshwarma.settings import ReloadableSettings
from sshwarma.tools.call import Tools
from sshwarma.tools.search import NamespaceSearch
from sshwarma.toolsets.toolsets import Toolsets
from sshwarma.verbs.tool_provider import make_verb_providers
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.runs import WorkspaceRuns
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.projects import ProjectPaths
from sshwarma.world.resources import resource_dir
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer
from sshwarma.wrap.host import LuaHost


def idle_services(world: World, folder: Path) -> Services:
    """Return services whose verbs work; scripts cannot run, and no model answers."""
    tools = Tools(world, make_verb_providers())
    lua = LuaHost(SCRIPT_LIMITS)
    projects = ProjectPaths(world, folder, is_pinned=True)
    composer = ContextComposer(lua, projects)
    roster = Roster(world, {}, folder / "models")
    budgets = ModelBudgets(world, roster.limits)
    settings = ReloadableSettings()
    hub = Hub(world, folder / "mcp")
    workspaces = Workspaces(world, BlobStore(folder / "blobs"))
    sandbox = SandboxHost(resource_dir("embedded") / "sandbox", folder, folder / "devices")
    runs = WorkspaceRuns(workspaces, sandbox, folder / "workspaces")
    return Services(
        tools=tools,
        lua_tools=LuaToolProvider(lua, tools),
        composer=composer,
        roster=roster,
        budgets=budgets,
        turns=TurnRunner(world, tools, roster, settings, composer, budgets),
        hub=hub,
        search=NamespaceSearch(),
        settings=settings,
        workspaces=workspaces,
        runs=runs,
        toolsets=Toolsets(world, runs, hub.bundled, folder),
        projects=projects,
        hooks=Hooks(world),
    )
