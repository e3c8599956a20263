"""What `/namespaces` and `/namespace` show."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.views import draw_columns, view


@dataclass(frozen=True, slots=True)
class NamespaceListed:
    """A namespace as the caller has it in its room. `tools_on` of its `tools` are on; `missing` are
    the states it requires that do not hold."""

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
    """Every namespace as the caller has it."""

    namespaces: tuple[NamespaceListed, ...]


@view(NamespaceList)
def draw_namespace_list(result: NamespaceList) -> Block:
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
        line(("dim", "● loaded, ○ not. /load NAME loads one, /find WORDS finds one.")),
    )


def _why(one: NamespaceListed) -> str:
    """Why a namespace is not available."""
    if one.missing:
        return f"needs {', '.join(one.missing)}"
    return "unavailable" if one.enabled else "disabled"


def _about(one: NamespaceListed) -> str:
    words = f" [{', '.join(one.keywords)}]" if one.keywords else ""
    return f"{one.description or one.name}{words}"


@dataclass(frozen=True, slots=True)
class NamespaceTool:
    """A tool of a namespace; whether it is on for the caller."""

    name: str
    description: str
    on: bool


@dataclass(frozen=True, slots=True)
class NamespaceShown:
    """A namespace and its tools."""

    namespace: NamespaceListed
    tools: tuple[NamespaceTool, ...]


@view(NamespaceShown)
def draw_namespace(shown: NamespaceShown) -> Block:
    one = shown.namespace
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
            for tool in shown.tools
        ),
    )
