"""Views of tools: lists, a tool that was stored, and a trial call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sshwarma.common.limits import MAX_PRINTED_LINES, MAX_SHOWN_AVAILABLE_TOOLS
from sshwarma.terminal.text import Block, Line, Table, block, line
from sshwarma.verbs.render_views import draw_rendered_text
from sshwarma.verbs.views import draw_columns, format_count, view, view_for_reader
from sshwarma.world.reader import Reader
from sshwarma.world.tool_names import model_tool_name


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as `/tool list` shows it.

    Attributes:
        namespace: the namespace, MCP server, room or agent that has it.
        origin: `built in`, `toolset` or `MCP server`; "" if it was made here.
        equipped_in: where it is equipped: `room`, `me`, `everywhere`; `new rooms` for admins.
    """

    name: str
    description: str
    made_by: str  # lua, or the namespace that carries it out
    equipped: bool
    obstacle: str  # why it cannot be used now
    title: str  # its name for people, if it has another than its id
    renderer: str = ""  # how pages show its results
    confirms: bool = False  # whether each call waits for a person
    namespace: str = ""
    origin: str = ""
    equipped_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolList:
    """Tools that match a pattern; `cut` if there are more than are shown."""

    pattern: str
    tools: tuple[ListedTool, ...]
    cut: bool


@view(ToolList)
def draw_tool_list(result: ToolList) -> Block:
    """Draw the tools that match a pattern, the equipped ones marked."""
    if not result.tools:
        return block(line(f"No tools found: {result.pattern}."))
    lines: list[Line] = [line(("heading", "Tools:"))]
    lines += draw_columns(
        (
            ("tool", f"✓ {tool.name}")
            if tool.equipped and not tool.obstacle
            else ("dim", f"{'✗' if tool.obstacle else '○'} {tool.name}"),
            ("dim", f"[{', '.join(filter(None, (tool.made_by, tool.obstacle)))}]"),
            ": ".join(filter(None, (tool.title, tool.description))),
        )
        for tool in result.tools
    )
    if result.cut:
        lines.append(line("  ", ("dim", f"… only the first {MAX_SHOWN_AVAILABLE_TOOLS} are shown")))
    return block(*lines)


@dataclass(frozen=True, slots=True)
class NewTool:
    """A tool that the caller has stored. `made`: whether it is new."""

    name: str
    made: bool
    size: int
    description: str
    input_schema: dict[str, Any]


@view_for_reader(NewTool)
def draw_new_tool(result: NewTool, reader: Reader) -> Block:
    """Draw the name and arguments of a stored tool, and the line that tests it."""
    action = "Made" if result.made else "Changed"
    arguments = ", ".join(result.input_schema["properties"]) or "none"
    size = format_count(result.size, "byte")
    return block(
        line(f"{action} ", ("tool", result.name), f" ({size}). Arguments: {arguments}."),
        line(("dim", f"Models call it {model_tool_name(result.name)}. Try it: "),
             ("verb", reader.name_call("tool test", name=result.name)), hang=2),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToolTestResult:
    """A trial call of a tool; only the caller sees it."""

    tool: str
    ok: bool
    text: str
    structured: Any
    printed: tuple[str, ...]
    seconds: float


@view_for_reader(ToolTestResult)
def draw_tool_test_result(trial: ToolTestResult, reader: Reader) -> Block:
    """Draw the result of a trial call, and the lines that it printed."""
    style, mark = ("ok", "✓") if trial.ok else ("error", "✗")
    lines: list[Line | Table] = [
        line((style, mark), f" {trial.tool} {trial.seconds:.2f}s, seen by you alone"),
        *draw_rendered_text(trial.text, None, reader, trial.structured),
    ]
    if trial.printed:
        lines.append(line(("dim", "  printed:")))
        lines += [line("  ", ("dim", text), hang=2) for text in trial.printed[:MAX_PRINTED_LINES]]
    if len(trial.printed) > MAX_PRINTED_LINES:
        lines.append(line("  ", ("dim", f"… {len(trial.printed) - MAX_PRINTED_LINES} more lines")))
    return block(*lines)
