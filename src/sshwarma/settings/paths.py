"""Paths in settings, which become absolute when they are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator

PATHS_OF_FILE: Final = (("data_dir",), ("backup", "directory"))
"""Keys of paths in a settings file, outside of lists of tables."""

PATHS_OF_TABLES: Final = (("models", "key_file"), ("mcp", "cwd"))
"""Lists of tables, and the key of the path in each of their tables."""


def make_absolute(path: Path) -> Path:
    """Return a path from the root on; `~` at its start is a home directory.

    Raises:
        ValueError: if it begins with a variable, or with a home directory that is not known.
    """
    if str(path).startswith("$"):
        raise ValueError("variables are not replaced in paths: write the path itself")
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"the home directory {path.parts[0]} is not known") from error


def _refuse_empty(value: object) -> object:
    """Refuse "", which pathlib takes for the current directory."""
    if value == "":
        raise ValueError("must not be empty")
    return value


SettingsPath: TypeAlias = Annotated[
    Path, BeforeValidator(_refuse_empty), AfterValidator(make_absolute)
]
"""A path of a setting, which a settings file, a variable or a flag gives."""


def place_paths(values: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the values of a settings file; relative paths begin at its directory.

    Values that are no paths stay as they are, for the check of the settings.
    """
    placed = dict(values)
    for keys in PATHS_OF_FILE:
        _place(placed, keys, directory)
    for table, key in PATHS_OF_TABLES:
        tables = placed.get(table)
        if isinstance(tables, list):
            placed[table] = [dict(one) if isinstance(one, dict) else one for one in tables]
            for one in placed[table]:
                if isinstance(one, dict):
                    _place(one, (key,), directory)
    return placed


def _place(values: dict[str, Any], keys: tuple[str, ...], directory: Path) -> None:
    *sections, key = keys
    for section in sections:
        if not isinstance(values.get(section), dict):
            return
        values[section] = values = dict(values[section])
    value = values.get(key)
    if isinstance(value, str) and value and not value.startswith(("~", "$")):
        values[key] = str(directory / value)


def xdg_dir(variable: str, fallback: str) -> Path | None:
    """Our directory in a base directory of the XDG specification.

    Relative values are ignored, as the specification says. None without a home directory.
    """
    value = os.environ.get(variable, "")
    if value.startswith("/"):
        return Path(value) / "sshwarma"
    try:
        return Path.home() / fallback / "sshwarma"
    except RuntimeError:  # neither HOME nor an entry in the table of users
        return None
