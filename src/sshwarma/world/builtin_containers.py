"""Built-in containers: the program's own namespaces, the defaults of new rooms.

Imports only the standard library, because `report_access` imports it.
"""

from __future__ import annotations

from typing import Final

DEFAULTS_ID: Final = "defaults"
"""The container whose equipment new rooms get."""

INTERNAL_ID: Final = "internal"
"""The container of the program's own tools that rooms and agents equip."""

GLOBAL_ID: Final = "global"
"""The container of the program's own tools that are on everywhere."""

FILES_ID: Final = "workspace"
"""The container of the tools for the files of a room."""

TOOLSET_TOOLS_ID: Final = "toolset-tools"
"""The container of the tools that install toolsets."""

MEMORY_ID: Final = "memory"
"""The container of the tools for memories."""

BUILTIN_NAMESPACES: Final = {
    INTERNAL_ID: "sshwarma",
    GLOBAL_ID: "global",
    FILES_ID: "workspace",
    TOOLSET_TOOLS_ID: "toolsets",
    MEMORY_ID: "memory",
}
"""The namespaces of the program's own tools: the name of each by the id of its container."""


DEFAULT_NAMESPACES: Final = frozenset({"sshwarma", "global"})
"""The names of those whose tools new rooms have, and whose use needs no role."""


def is_builtin_namespace(name: str) -> bool:
    """Return whether a namespace of that name holds the program's own tools."""
    return name in BUILTIN_NAMESPACES.values()


def is_builtin_tool(canonical: str) -> bool:
    """Return whether a tool is the program's own.

    The name is the canonical one: `sshwarma:look`.
    """
    return is_builtin_namespace(canonical.partition(":")[0])


BUNDLE_KEY: Final = "bundle"
"""Key of the metadata of a namespace that was installed from a bundle: its manifest."""
