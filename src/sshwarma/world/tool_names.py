"""Names of a tool in the lists of models and of MCP clients.

The canonical name is `namespace:tool`. Models get `namespace__tool` in the alphabet and length
their providers allow; MCP shows `namespace.tool`. Both are stored with each tool, so that a new
name is compared with an index: to change how they are made needs a migration.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from sshwarma.common.limits import MAX_MCP_TOOL_NAME_CHARACTERS, MAX_MODEL_TOOL_NAME_CHARACTERS

PLUGIN_NAME_KEY: Final = "plugin_name"
"""Key of the metadata of a tool of a plugin: its name by `plugin_tool_name`."""

BARE_PREFIXES: Final = ("project_memory_", "session_memory_")

_BARE: Final = re.compile(rf"memory:((?:{'|'.join(BARE_PREFIXES)})[a-z_]+)")
"""Tools of the built-in namespace `memory`, whose own names say where they belong: they are shown
without the namespace."""

_NOT_FOR_MODELS: Final = re.compile(r"[^A-Za-z0-9_-]")
_NOT_FOR_MCP: Final = re.compile(r"[^A-Za-z0-9_.-]")


def model_tool_name(canonical: str) -> str:
    """Return the name for models: `git.branch:create` as `git_branch__create`.

    A longer one is cut, with a hash.
    """
    if bare := _BARE.fullmatch(canonical):
        return bare[1]
    namespace, _, tool = canonical.partition(":")
    name = "__".join(_NOT_FOR_MODELS.sub("_", part) for part in (namespace, tool) if part)
    return _cut_name(name, canonical, MAX_MODEL_TOOL_NAME_CHARACTERS)


def mcp_tool_name(canonical: str) -> str:
    """Return the name for MCP: `git.branch:create` as `git.branch.create`.

    It has no spaces; a longer one is cut too.
    """
    if bare := _BARE.fullmatch(canonical):
        return bare[1]
    name = _NOT_FOR_MCP.sub("_", canonical.replace(":", "."))
    return _cut_name(name, canonical, MAX_MCP_TOOL_NAME_CHARACTERS)


def plugin_tool_name(canonical: str) -> str:
    """Return the name that a plugin gives a tool: `moltbook:post` as `moltbook_post`."""
    return canonical.replace(":", "_", 1)


def make_stored_names(kind: str, canonical: str | None) -> dict[str, str | None]:
    """Return the columns of a thing that follow from its kind and qualified name."""
    if kind != "tool" or canonical is None:
        return {"name_for_models": None, "name_for_mcp": None}
    return {"name_for_models": model_tool_name(canonical), "name_for_mcp": mcp_tool_name(canonical)}


def _cut_name(name: str, canonical: str, length: int) -> str:
    if len(name) <= length:
        return name
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
    return f"{name[: length - 9]}_{digest}"
