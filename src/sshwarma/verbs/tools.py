"""The verbs of `/tools`: how many tools the server has, and where they are from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.plugins import PluginItem, describe_plugins
from sshwarma.verbs.registry import group, tool_specs
from sshwarma.verbs.views import format_count, view
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.tool_names import model_tool_name

BUILTIN_PATH: Final = "sshwarma/verbs/"
"""Where the built-in tools are, in the program."""

tools = group(
    "tools",
    section="Tools",
    default="info",
    doc="""Count the program's own tools, and those of plugins.

    Tools of MCP servers, of toolsets and of people are not counted. /inv shows those that are
    equipped, /tool list those that could be.
    """,
)


@dataclass(frozen=True, slots=True)
class ToolsInfo:
    """The program's own tools and those of plugins, as an export has them.

    Attributes:
        names: of these tools, the built-in ones first, each as it can be called.
        customPlugins: None if the server loads no plugins.
    """

    totalCount: int  # noqa: N815
    builtinCount: int  # noqa: N815
    builtinPath: str  # noqa: N815
    names: tuple[str, ...]
    customPlugins: tuple[PluginItem, ...] | None  # noqa: N815


@view(ToolsInfo)
def draw_tools_info(result: ToolsInfo) -> Block:
    """Draw how many tools there are, where they are from, and their names."""
    return block(
        line(("heading", f"{format_count(result.totalCount, 'tool')} loaded")),
        line(("dim", "of the program itself and of plugins; others are not counted"), hang=2),
        line(f"{result.builtinPath} ({result.builtinCount} built-in)"),
        *(
            one
            for item in result.customPlugins or ()
            for one in (
                line(f"{item.name}/ ({format_count(item.count, 'tool')})"),
                line(("dim", f"  {item.path}"), hang=2),
            )
        ),
        line(""),
        *(line(f"· {name}", hang=2) for name in result.names),
    )


@tools.verb("info", needs=Right.ENTER, tool=False, examples=("/tools info",))
async def show_tools_info(caller: Caller) -> ToolsInfo:
    """Count the program's own tools, and those of plugins.

    Tools of MCP servers, of toolsets and of people are not counted.
    """
    found = await services_of(caller).toolsets.plugins.list()
    builtin = _name_builtin_tools()
    names = (*builtin, *(tool.name for plugin in found or () for tool in plugin.tools))
    items = None if found is None else describe_plugins(found)
    return ToolsInfo(len(names), len(builtin), BUILTIN_PATH, names, items)


def _name_builtin_tools() -> list[str]:
    """Return a name of each built-in tool: the short one, if only one tool has it."""
    specs = tool_specs()
    counts = Counter(spec.name for spec in specs)
    return [
        spec.name if counts[spec.name] == 1 else model_tool_name(f"{spec.namespace}:{spec.name}")
        for spec in specs
    ]
