"""Views of namespaces of tools: the list, and one namespace with its tools."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.reader import Reader
from sshwarma.verbs.views import draw_columns, view, view_for_reader


@dataclass(frozen=True, slots=True)
class NamespaceSummary:
    """A namespace as it is for the caller in its room.

    Attributes:
        missing: required states that do not hold.
        tools: number of its tools.
        tools_on: number of its tools that are equipped.
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


@dataclass(frozen=True, slots=True)
class NamespaceList:
    """Every namespace, as it is for the caller."""

    namespaces: tuple[NamespaceSummary, ...]


@view_for_reader(NamespaceList)
def draw_namespace_list(result: NamespaceList, reader: Reader) -> Block:
    """Draw the namespaces, those inside another indented, with loaded ones marked."""
    load = reader.name_call("load", room="NAME")
    find = reader.name_call("find", query="WORDS")
    return block(
        line(("heading", "Namespaces:")),
        *draw_columns(
            (
                ("ok", "●") if one.loaded else ("dim", "○"),
                ("thing", "  " * one.id.count(".") + one.id),
                f"{one.tools_on}/{one.tools}" if one.tools_on else f"{one.tools}",
                ("warn", "" if one.available else _why(one)),
                _about(one),
            )
            for one in result.namespaces
        ),
        line(("dim", f"● loaded, ○ not. {load} loads one, {find} finds one.")),
    )


def _why(item: NamespaceSummary) -> str:
    """Explain why a namespace is not available."""
    if item.missing:
        return f"needs {', '.join(item.missing)}"
    return "unavailable" if item.enabled else "disabled"


def _about(item: NamespaceSummary) -> str:
    words = f" [{', '.join(item.keywords)}]" if item.keywords else ""
    return f"{item.description or item.name}{words}"


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


@view(NamespaceDetails)
def draw_namespace_details(namespace: NamespaceDetails) -> Block:
    """Draw a namespace, its states and its tools."""
    one = namespace.namespace
    facts = (
        ("Name", one.name),
        ("Keywords", ", ".join(one.keywords)),
        ("Parent", one.parent or ""),
        ("Children", ", ".join(one.children)),
        ("Requires", ", ".join(one.required_states)),
        ("Missing", ", ".join(one.missing)),
        ("Loads by itself", "yes" if one.auto_load else ""),
        ("Loads with its parent", "yes" if one.load_with_parent else ""),
    )
    state = "loaded" if one.loaded else "not loaded"
    return block(
        line(("thing", one.id), f" - {one.description}" if one.description else ""),
        line(f"Status: {state}, {'available' if one.available else _why(one)}"),
        *(line(f"{name}: {value}") for name, value in facts if value),
        *([line(), line(f"Tools: {one.tools_on} of {one.tools} on")] if one.tools else []),
        *draw_columns(
            (("ok", "✓") if tool.on else ("dim", "·"), ("tool", tool.name), tool.description)
            for tool in namespace.tools
        ),
    )
