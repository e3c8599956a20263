"""The interpreter that the first line of a script names, such as node for npx."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

MAX_LINE_BYTES: Final = 256
"""What Linux reads of a first line."""


def find_missing_interpreter(program: Path, path: str | None) -> str | None:
    """Return the interpreter that a program needs and that is not there, or None.

    Without it the kernel, or `env`, reports a missing file and does not say of what.

    Args:
        program: the file of the program; one that cannot be read has no known interpreter.
        path: the PATH that the program gets.
    """
    try:
        with program.open("rb") as file:
            line = file.readline(MAX_LINE_BYTES)
    except OSError:
        return None
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    if not words:
        return None
    if Path(words[0]).name != "env":
        return None if Path(words[0]).exists() else words[0]
    named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return named[0] if named and shutil.which(named[0], path=path) is None else None
