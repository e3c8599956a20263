"""Plugins at the start of a server, and the names that they cannot have."""

from __future__ import annotations

from sshwarma.settings import PluginSettings
from sshwarma.toolsets.plugin_folder import find_plugins_folder
from sshwarma.toolsets.plugins import Plugins
from sshwarma.verbs.registry import tool_specs
from sshwarma.world.projects import ProjectPaths


async def start_plugins(plugins: Plugins, settings: PluginSettings, projects: ProjectPaths) -> None:
    """Load the plugins of the directory where the server was started, if that is set.

    Their tools get the pinned one of `projects`.

    Raises:
        PluginError: if one of them breaks a rule.
    """
    plugins.sessions.projects = projects
    plugins.sessions.show_tracebacks = settings.show_tracebacks
    root = find_plugins_folder() if settings.load else None
    await plugins.start(root, list_builtin_tools())


def list_builtin_tools() -> list[str]:
    """Return the canonical names of the program's own tools."""
    return [f"{spec.namespace}:{spec.name}" for spec in tool_specs()]
