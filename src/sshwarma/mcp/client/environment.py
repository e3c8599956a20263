"""`${NAME}` in what is sent to a server: read when it is needed, shown to nobody."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from sshwarma.world.errors import Unavailable

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

INHERITED_VARIABLES: Final = ("PATH", "HOME", "LANG")
"""All that a program gets of our environment, beside what it was given by name."""


def expand_variables(values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The values with each `${NAME}` replaced.

    Raises:
        Unavailable: naming a variable that is not there; nothing is sent half filled.
    """

    def value_of(match: re.Match[str]) -> str:
        found = environ.get(match[1])
        if not found:
            raise Unavailable(f"The environment variable {match[1]} is not set.")
        return found

    return {name: _VARIABLE.sub(value_of, value) for name, value in values.items()}


def program_environment(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a program: little of ours, and what it was given.

    Raises:
        Unavailable: as `expand_variables`.
    """
    ours = {name: environ[name] for name in INHERITED_VARIABLES if name in environ}
    return {"PATH": os.defpath, **ours, **expand_variables(given, environ)}
