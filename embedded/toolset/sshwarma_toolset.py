"""What tools of a toolset import: the decorator `tool`, and `get_context`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

TOOL_ATTRIBUTE = "__toolset_tool__"
"""Attribute of a decorated function, with its ToolMetadata."""


MARKED: list[Callable[..., Any]] = []
"""All functions that were decorated, in their order."""

_OPTIONS = {"name": str, "description": str, "requires_confirmation": bool}


@dataclass(frozen=True)
class ToolMetadata:
    """What the decorator says of a tool; None where it says nothing."""

    name: str | None = None
    description: str | None = None
    requires_confirmation: bool | None = None


@dataclass(frozen=True)
class ToolContext:
    """Where a call runs: the folder of the room's files, and whose call it is."""

    workspace: Path
    chat_id: str
    toolset_id: str


_context: ContextVar[ToolContext | None] = ContextVar("toolset_context", default=None)


def tool(
    function: F | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    requires_confirmation: bool | None = None,
    **others: object,
) -> Any:
    """Mark a function as a tool, with its name and description for people and models.

    Raises:
        TypeError: for any other option, or a value of another type.
    """
    if others:
        known = ", ".join(_OPTIONS)
        raise TypeError(f"tool() has no option {', '.join(others)}: it has {known}")
    given = {
        "name": name, "description": description, "requires_confirmation": requires_confirmation
    }  # fmt: skip
    for option, value in given.items():
        kind = _OPTIONS[option]
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{option} of tool() must be {kind.__name__} (got {value!r:.40})")
    if function is not None and not callable(function):
        raise TypeError(f"options of tool() have names: {', '.join(_OPTIONS)}")

    def mark(marked: F) -> F:
        metadata = ToolMetadata(name, description, requires_confirmation)
        setattr(marked, TOOL_ATTRIBUTE, metadata)
        MARKED.append(marked)
        return marked

    return mark if function is None else mark(function)


def get_context() -> ToolContext:
    """Return where the running call is.

    Raises:
        RuntimeError: outside a call.
    """
    context = _context.get()
    if context is None:
        raise RuntimeError("get_context() works only while a tool runs")
    return context


def set_context(context: ToolContext) -> None:
    """Set where the call is that begins."""
    _context.set(context)


def clear_context() -> None:
    """End the call."""
    _context.set(None)
