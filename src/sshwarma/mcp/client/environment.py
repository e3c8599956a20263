"""Environment of a server: expansion of `${NAME}` and variables of its process."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from sshwarma.world.errors import Unavailable

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

SERVER_VARIABLES: Final = ("PATH", "HOME", "LANG")
"""Variables that the program of a server inherits from us; others must be given by name."""

PROGRAMS_DIRECTORY: Final = "mcp"
"""In the data directory: there each program without a `cwd` has a working directory."""


def expand_text(text: str, environ: Mapping[str, str]) -> str:
    """Replace each `${NAME}` in a text.

    Raises:
        Unavailable: if a variable is not set; the text names it.
    """

    def value_of(match: re.Match[str]) -> str:
        value = environ.get(match[1])
        if not value:
            raise Unavailable(f"The environment variable {match[1]} is not set.")
        return value

    return _VARIABLE.sub(value_of, text)


def expand_variables(values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Replace each `${NAME}` in the values.

    Raises:
        Unavailable: if a variable is not set; see `expand_text`.
    """
    return {name: expand_text(value, environ) for name, value in values.items()}


def program_environment(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of a program: SERVER_VARIABLES and the given values.

    Raises:
        Unavailable: if a variable is not set; see `expand_variables`.
    """
    inherited = {name: environ[name] for name in SERVER_VARIABLES if name in environ}
    return {"PATH": os.defpath, **inherited, **expand_variables(variables, environ)}
