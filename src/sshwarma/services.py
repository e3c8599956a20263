"""The services of a running server, which every request carries with it.

`App` builds them before the first door listens. Each door gives them to the `Caller` of every
request; a verb reads them with `services_of(caller)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sshwarma.hooks.outgoing import Hooks
from sshwarma.lua_tools.provider import LuaToolProvider
from sshwarma.mcp.client.hub import Hub
from sshwarma.models.budget import ModelBudgets
from sshwarma.models.roster import Roster
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.settings import ReloadableSettings
from sshwarma.tools.call import Tools
from sshwarma.tools.search import NamespaceSearch
from sshwarma.toolsets.toolsets import Toolsets
from sshwarma.workspaces.runs import WorkspaceRuns
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.caller import Caller
from sshwarma.world.projects import ProjectPaths
from sshwarma.world.request_services import RequestServices
from sshwarma.wrap.compose import ContextComposer


@dataclass(slots=True)
class HttpAddress:
    """Where the HTTP server is reached; `url` is "" while it is off."""

    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services(RequestServices):
    """The parts of the program above the world that verbs and doors use."""

    tools: Tools
    lua_tools: LuaToolProvider
    composer: ContextComposer
    roster: Roster
    budgets: ModelBudgets
    turns: TurnRunner
    hub: Hub
    search: NamespaceSearch
    settings: ReloadableSettings
    workspaces: Workspaces
    runs: WorkspaceRuns
    toolsets: Toolsets
    projects: ProjectPaths
    hooks: Hooks
    http: HttpAddress = field(default_factory=HttpAddress)


def services_of(caller: Caller) -> Services:
    """Return the services that a request carries.

    Raises:
        TypeError: if the caller was made without `Services`, which is an error in the program.
    """
    services = caller.services
    if not isinstance(services, Services):
        raise TypeError(f"A caller carries {type(services).__name__} in place of Services.")
    return services
