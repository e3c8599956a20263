"""Calls of tools in messages of std::slop, as its providers sent them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from sshwarma.common.json_guard import load_json
from sshwarma.common.limits import MAX_IMPORT_NAME_CHARACTERS

UNKNOWN_TOOL: Final = "unknown"


@dataclass(frozen=True, slots=True)
class SlopCall:
    """A call of a tool: its id for the provider, the tool, the arguments as JSON."""

    id: str
    tool: str
    arguments: str


def split_call_id(text: str) -> tuple[str, str]:
    """Return the id of a call and the name of its tool, which may be the same."""
    call_id, bar, tool = text.partition("|")
    return call_id, clean_tool_name(tool if bar else call_id)


def clean_tool_name(name: str) -> str:
    """Return a name of a tool as it is shown: printable and short."""
    printable = "".join(sign if sign.isprintable() else "?" for sign in name)
    return printable[:MAX_IMPORT_NAME_CHARACTERS] or UNKNOWN_TOOL


def parse_calls(content: str, tool_call_id: str) -> tuple[str, list[SlopCall]]:
    """Return the text before the calls in a message, and the calls.

    A message that has none in a form that is known is one call with the whole content.
    """
    call_id, tool = split_call_id(tool_call_id)
    try:
        text, calls = _find_calls(load_json(content))
    except (ValueError, RecursionError):
        text, calls = "", []
    return (text, calls) if calls else ("", [SlopCall(call_id, tool, content)])


def _find_calls(message: Any) -> tuple[str, list[SlopCall]]:
    """Return the text before the calls in what a provider sent, and the calls."""
    fields = message if isinstance(message, dict) else {}
    entries = _list(fields.get("tool_calls")) or [
        one for one in (fields, *_list(message)) if _is_openai(one)
    ]
    calls = [_read_openai(entry) for entry in entries]
    parts = [fields, *_list(fields.get("parts")), *_list(message)]
    calls += [
        _read_gemini(part["functionCall"])
        for part in parts
        if isinstance(part, dict) and isinstance(part.get("functionCall"), dict)
    ]
    text = fields.get("content")
    return text if isinstance(text, str) else "", calls


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_openai(entry: Any) -> bool:
    """Return whether an object is a call: with `function`, or a name and arguments."""
    if not isinstance(entry, dict):
        return False
    function = entry.get("function", entry)
    return (
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and (function is not entry or "arguments" in entry)
    )


def _read_openai(entry: Any) -> SlopCall:
    fields = entry if isinstance(entry, dict) else {}
    function = fields.get("function", fields)
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments", {})
    return SlopCall(
        str(fields.get("id", "")),
        clean_tool_name(str(function.get("name", ""))),
        arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False),
    )


def _read_gemini(call: dict[str, Any]) -> SlopCall:
    name = str(call.get("name", ""))
    arguments = json.dumps(call.get("args", {}), ensure_ascii=False)
    return SlopCall(name, clean_tool_name(name), arguments)
