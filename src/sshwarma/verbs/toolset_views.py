"""Results of `/toolset`: lists of toolsets, and one with what it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sshwarma.common.shorten import count_rest
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.file_views import format_size
from sshwarma.verbs.views import draw_columns, format_count, view

MAX_SHOWN_FILES: Final = 20
"""Files of a toolset that a terminal shows."""


DOOR_NAMES: Final = {"ssh": "ssh", "exec": "ssh", "mcp": "MCP", "api": "HTTP", "web": "the console"}
"""Names for people of the doors through which toolsets come; those of tools have none."""


@dataclass(frozen=True, slots=True)
class ToolsetItem:
    """An installed toolset.

    Attributes:
        installed_by: who has brought this version; "" if that is not known.
        installed_over: `ssh`, `MCP` or `HTTP`; "" for a tool, or if it is not known.
        source: `zip, sha256:` and the hash of the archive, or `local, ` and the folder.
        tools: how many tools it has.
    """

    id: str
    name: str
    version: str
    description: str
    enabled: bool
    installed_at: str
    installed_by: str
    installed_over: str
    source: str
    tools: int


@dataclass(frozen=True, slots=True)
class ToolsetList:
    """The installed toolsets; `obstacle` is why their tools cannot run now, or ""."""

    toolsets: tuple[ToolsetItem, ...]
    obstacle: str


@view(ToolsetList)
def draw_toolset_list(result: ToolsetList) -> Block:
    """Draw the toolsets, one a line."""
    notes = [line(("warn", result.obstacle))] if result.obstacle else []
    if not result.toolsets:
        return block(line("No toolset is installed."), *notes)
    rows = [
        (
            ("name", item.id), item.name, item.version, format_count(item.tools, "tool"),
            ("dim", "" if item.enabled else "disabled"),
        )
        for item in result.toolsets
    ]  # fmt: skip
    return block(*draw_columns(rows), *notes)


@dataclass(frozen=True, slots=True)
class ToolsetTool:
    """A tool of a toolset; `confirms` is whether each call needs an approval.

    `renderer_config` is the configuration of its renderer; None without one.
    """

    id: str
    name: str
    description: str
    enabled: bool
    confirms: bool
    entrypoint: str
    renderer: str | None
    renderer_config: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolsetFile:
    """A file of a toolset."""

    path: str
    kind: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class ToolsetServer:
    """An MCP server of a toolset; `reason` is why it is not up."""

    id: str
    kind: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolsetDetails:
    """An installed toolset with what it has; `obstacle` is as in the list."""

    toolset: ToolsetItem
    tools: tuple[ToolsetTool, ...]
    files: tuple[ToolsetFile, ...]
    servers: tuple[ToolsetServer, ...]
    requirements: tuple[str, ...]
    obstacle: str


@view(ToolsetDetails)
def draw_toolset_details(result: ToolsetDetails) -> Block:
    """Draw the facts of a toolset, its tools and its files."""
    item = result.toolset
    state = "" if item.enabled else ", disabled"
    installed_at = item.installed_at[:16].replace("T", " ")
    lines: list[Line] = [
        line(("heading", item.name), ("dim", f"  {item.id} {item.version}{state}")),
    ]
    if item.description:
        lines.append(line(f"  {item.description}"))
    by = f" by {item.installed_by}" if item.installed_by else ""
    over = f" over {item.installed_over}" if item.installed_over else ""
    lines.append(line(("dim", f"  installed {installed_at} UTC{by}{over}")))
    lines.append(line(("dim", f"  from {item.source}"), hang=4))
    rows = [
        (
            ("name", f"  {tool.id}"),
            "" if tool.name == tool.id.rpartition(":")[2] else tool.name,
            tool.description.split("\n")[0],
            ("dim", ", ".join(filter(None, (
                tool.renderer or "",
                "needs an approval" if tool.confirms else "",
                "" if tool.enabled else "off",
            )))),
        )
        for tool in result.tools
    ]  # fmt: skip
    size = format_size(sum(file.size for file in result.files))
    lines += draw_columns(rows)
    lines += draw_columns(
        (("name", f"  {server.id}"), f"MCP server, {server.kind}", server.state,
         ("dim", server.reason))
        for server in result.servers
    )  # fmt: skip
    if result.requirements:
        lines.append(line(f"  requires {', '.join(result.requirements)}", hang=4))
    lines.append(line(("dim", f"  {format_count(len(result.files), 'file')}, {size}")))
    shown = result.files[:MAX_SHOWN_FILES]
    lines += draw_columns(
        ((file.path, ("dim", format_size(file.size))) for file in shown), indent=4
    )
    if rest := count_rest(len(result.files) - len(shown), "file"):
        lines.append(line(("dim", f"    {rest}")))
    if result.obstacle:
        lines.append(line(("warn", f"  {result.obstacle}")))
    return block(*lines)
