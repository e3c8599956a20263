"""Where a setting has its value from: a variable, the file, or the command line."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ENVIRONMENT_PREFIX: Final = "SSHWARMA_"


def read_tables(path: Path | None) -> dict[str, Any]:
    """Return what a settings file contains; nothing if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}


def find_origin(
    place: Sequence[str | int],
    flags: Mapping[str, Any],
    path: Path | None,
    tables: Mapping[str, Any],
) -> str:
    """Return the variable or file that sets the value at a place, if no flag does.

    Args:
        place: names of tables and the setting, as in an error of pydantic.
        flags: those of the command line, as tables in the file.
        path: the settings file, if there is one.
        tables: its contents.
    """
    if _goes_into(place, flags):
        return ""
    variables = {name.upper(): name for name in os.environ}
    for size in range(len(place), 0, -1):
        name = ENVIRONMENT_PREFIX + "__".join(str(part).upper() for part in place[:size])
        if name in variables:
            return variables[name]
    return str(path) if path is not None and place and place[0] in tables else ""


def _goes_into(place: Sequence[str | int], flags: Mapping[str, Any]) -> bool:
    """Whether a flag gives the value at a place, or a part of it."""
    value: Any = flags
    for part in place:
        if not isinstance(value, Mapping):
            return True
        if part not in value:
            return False
        value = value[part]
    return bool(place)
