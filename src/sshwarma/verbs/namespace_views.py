"""Views of namespaces of tools: the list, and one namespace with its tools."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.tools.call_checks import describe_switch_place
from sshwarma.verbs.views import cut_to_line, draw_columns, view_for_reader
from sshwarma.world.reader import Reader


@dataclass(frozen=True, slots=True)
class NamespaceSummary:
    """A namespace as it is for the caller in its room.

    Attributes:
        missing: required states that are not set.
        tools: number of its tools.
        tools_on: number of its tools that are equipped.
        switched_off: where it is switched off for the caller: room, agent or "".
    """

    id: str
    name: str
    description: str
    keywords: tuple[str, ...]
    parent: str | None
    children: tuple[str, ...]
    required_states: tuple[str, ...]
    auto_load: bool
    load_with_parent: bool
    loaded: bool
    available: bool
    missing: tuple[str, ...]
    tools: int
    tools_on: int
    enabled: bool
    switched_off: str = ""


@dataclass(frozen=True, slots=True)
class NamespaceList:
    """Every namespace, as it is for the caller."""

    namespaces: tuple[NamespaceSummary, ...]


@view_for_reader(NamespaceList)
def draw_namespace_list(result: NamespaceList, reader: Reader) -> Block:
    """Draw the namespaces, those inside another indented, with loaded ones marked."""
    load = reader.hint("{} loads one", "load", room="NAME")
    find = reader.hint("{} finds one", "find", query="WORDS")
    hint = ", ".join(filter(None, (load, find)))
    return block(
        line(("heading", "Namespaces:")),
        *draw_columns(
            (
                ("ok", "●") if namespace.loaded else ("dim", "○"),
                ("thing", "  " * namespace.id.count(".") + namespace.id),
                f"{namespace.tools_on}/{namespace.tools}"
                if namespace.tools_on
                else f"{namespace.tools}",
                ("warn", _explain_unloaded(namespace)),
                _about(namespace),
            )
            for namespace in result.namespaces
        ),
        line(("dim", f"● loaded, ○ not.{f' {hint}.' if hint else ''}")),
    )


def _explain_unloaded(item: NamespaceSummary) -> str:
    """Explain why a namespace's tools cannot be called; "" if no switch prevents it."""
    if item.missing:
        return f"needs {', '.join(item.missing)}"
    if not item.available:
        return "unavailable" if item.enabled else "disabled"
    if item.switched_off:
        return f"switched off {describe_switch_place(item.switched_off)}"
    return ""


def _about(item: NamespaceSummary) -> str:
    keywords = f" [{', '.join(item.keywords)}]" if item.keywords else ""
    return f"{item.description or item.name}{keywords}"


@dataclass(frozen=True, slots=True)
class NamespaceTool:
    """A tool of a namespace. `on`: whether it is equipped for the caller."""

    name: str
    description: str
    on: bool


@dataclass(frozen=True, slots=True)
class NamespaceDetails:
    """A namespace and its tools."""

    namespace: NamespaceSummary
    tools: tuple[NamespaceTool, ...]


@view_for_reader(NamespaceDetails)
def draw_namespace_details(namespace: NamespaceDetails, reader: Reader) -> Block:
    """Draw a namespace, its states and its tools."""
    summary = namespace.namespace
    facts = (
        ("Name", summary.name),
        ("Keywords", ", ".join(summary.keywords)),
        ("Parent", summary.parent or ""),
        ("Children", ", ".join(summary.children)),
        ("Requires", ", ".join(summary.required_states)),
        ("Missing", ", ".join(summary.missing)),
        ("Loads by itself", "yes" if summary.auto_load else ""),
        ("Loads with its parent", "yes" if summary.load_with_parent else ""),
    )
    state = "loaded" if summary.loaded else "not loaded"
    return block(
        line(("thing", summary.id), f" - {summary.description}" if summary.description else ""),
        line(f"Status: {state}, {_explain_unloaded(summary) or 'available'}"),
        *(line(f"{name}: {value}") for name, value in facts if value),
        *(
            [line(), line(f"Tools: {summary.tools_on} of {summary.tools} on")]
            if summary.tools
            else []
        ),
        *draw_columns(
            (
                ("ok", "✓") if tool.on else ("dim", "·"),
                ("tool", reader.name_tool(tool.name)),
                cut_to_line(tool.description),
            )
            for tool in namespace.tools
        ),
    )
