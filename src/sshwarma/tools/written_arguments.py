"""The arguments of a call as text, for people who decide on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sshwarma.terminal.escape import escape_lines


def write_arguments(arguments: Mapping[str, Any]) -> str:
    """Return arguments for people to read before they allow a call: all of each."""
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = text.split("\n")
        lines += [f"{_write_name(name)}: {first}", *(f"    {more}" for more in rest)]
    return "\n".join(lines) or "without arguments"


def _write_name(name: str) -> str:
    """Return the name of an argument as one line, which no other can look like."""
    return escape_lines(name).replace("\n", "\\n")
