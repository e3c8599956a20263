"""Environment of a server: expansion of `${NAME}` and variables of its process."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from sshwarma.world.errors import Unavailable

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

SERVER_VARIABLES: Final = ("PATH", "HOME", "LANG")
"""Variables that the program of a server inherits from us; others must be given by name."""

PROGRAMS_DIRECTORY: Final = "mcp"
"""In the data directory: there each program without a `cwd` has a working directory."""


def expand_variables(values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Replace each `${NAME}` in the values.

    Raises:
        Unavailable: if a variable is not set; the text names it.
    """

    def value_of(match: re.Match[str]) -> str:
        text = environ.get(match[1])
        if not text:
            raise Unavailable(f"The environment variable {match[1]} is not set.")
        return text

    return {name: _VARIABLE.sub(value_of, value) for name, value in values.items()}


def expand_texts(texts: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Replace each `${NAME}` in texts.

    Raises:
        Unavailable: if a variable is not set; see `expand_variables`.
    """
    return list(expand_variables({str(i): text for i, text in enumerate(texts)}, environ).values())


def program_environment(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of a program: SERVER_VARIABLES and the given values.

    Raises:
        Unavailable: if a variable is not set; see `expand_variables`.
    """
    inherited = {name: environ[name] for name in SERVER_VARIABLES if name in environ}
    return {"PATH": os.defpath, **inherited, **expand_variables(variables, environ)}
