"""Check of the results of tools before they are stored and shown."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, NamedTuple

from sshwarma.common.limits import MAX_RESULT_BYTES, MAX_RESULT_LEVELS
from sshwarma.common.units import MIB
from sshwarma.tools.provider import ToolResult

INDENT: Final = 2
"""Columns by which a level of a value is indented where people read it."""

SHORT_TEXT_CHARACTERS: Final = 100_000
SHORT_VALUE_PARTS: Final = 2_000
SHORT_VALUE_LEVELS: Final = 20
"""What is checked at once; a longer result is checked in a thread, while others go on."""


class _Size(NamedTuple):
    """Parts of a value, its deepest level, and its characters with indentation."""

    parts: int
    levels: int
    characters: int


async def check_result(result: ToolResult) -> ToolResult:
    """Return a result, or an error in its place if it cannot be stored and shown."""
    is_short = len(result.full_text) <= SHORT_TEXT_CHARACTERS and is_short_value(result.structured)
    problem = _find_problem(result) if is_short else await asyncio.to_thread(_find_problem, result)
    if not problem:
        return result
    return ToolResult(f"The result of the tool cannot be used: {problem}.", is_error=True)


def format_value(value: Any, indent: int = INDENT) -> str:
    """Return a value as JSON, indented if it is short; "" if it cannot be written.

    Indentation multiplies the length of a deep value.
    """
    try:
        return json.dumps(
            value, ensure_ascii=False, indent=indent if is_short_value(value) else None
        )
    except (ValueError, RecursionError):
        return ""


def is_short_value(value: Any) -> bool:
    """Return whether a value has few parts and levels."""
    size = _measure(value, SHORT_VALUE_PARTS, SHORT_VALUE_LEVELS, SHORT_TEXT_CHARACTERS)
    return (
        size.parts <= SHORT_VALUE_PARTS
        and size.levels <= SHORT_VALUE_LEVELS
        and size.characters <= SHORT_TEXT_CHARACTERS
    )


def _find_problem(result: ToolResult) -> str:
    """Return why a result cannot be stored and shown; "" if it can be."""
    size = _measure(result.structured, MAX_RESULT_BYTES, MAX_RESULT_LEVELS, MAX_RESULT_BYTES)
    if size.levels > MAX_RESULT_LEVELS:
        return f"its value has over {MAX_RESULT_LEVELS} levels"
    try:
        length = len(result.full_text.encode())
        json.dumps(result.structured, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode text"
    except (TypeError, ValueError):
        return "its value is not JSON"
    if max(length, *size) > MAX_RESULT_BYTES:
        return f"it has over {MAX_RESULT_BYTES // MIB} MiB, with indentation"
    return ""


def _measure(value: Any, parts: int, levels: int, characters: int) -> _Size:
    """Measure a value until one of the limits is passed."""
    seen = deepest = length = 0
    waiting = [(value, 1)]
    while waiting and seen <= parts and deepest <= levels and length <= characters:
        part, level = waiting.pop()
        seen += 1
        length += INDENT * level
        if isinstance(part, (dict, list, tuple)) and len(part) > parts:
            return _Size(len(part), deepest, length)
        if isinstance(part, dict):
            deepest = max(deepest, level)
            length += sum(len(str(key)) for key in part)
            waiting += [(inner, level + 1) for inner in part.values()]
        elif isinstance(part, (list, tuple)):
            deepest = max(deepest, level)
            waiting += [(inner, level + 1) for inner in part]
        else:
            length += len(part) if isinstance(part, str) else 4
    return _Size(seen, deepest, length)
