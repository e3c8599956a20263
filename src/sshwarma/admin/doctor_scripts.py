"""The files in the command of an MCP server, as far as they are known.

Known are the script of an interpreter, and arguments that are whole paths. Nothing is known of code
and modules on the command line, and of programs that have other files than this machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

INTERPRETERS: Final = {
    r"python[0-9.]*": r"-[bBdEiIOPqsSuvx]+",
    r"node(js)?": r"--enable-source-maps|--no-warnings",
    r"(ba|da|k|z)?sh": r"-[eux]+",
    r"perl|ruby": r"-w",
}
"""Programs whose first argument is a script, with the options before it that take no value."""

ELSEWHERE: Final = frozenset(
    {
        "apptainer", "bwrap", "chroot", "distrobox", "docker", "docker-compose", "flatpak", "incus",
        "kubectl", "lxc", "nerdctl", "nsenter", "oc", "podman", "podman-compose", "singularity",
        "ssh", "toolbox",
    }
)  # fmt: skip
"""Programs that run others in a container or on another machine, with the files there."""

_PATH: Final = re.compile(r"(?:--?[\w.-]+=)?(/(?!/).*)", re.DOTALL)
"""A whole path, or an option with one; `//` begins an address of the web."""


def find_missing_file(command: Sequence[str], folder: Path) -> str | None:
    """Return the first file that a command names and that does not exist.

    Args:
        command: a program and its arguments.
        folder: the working directory of the program.

    Returns:
        The path as the command has it.
    """
    if any(Path(word).name in ELSEWHERE for word in command):
        return None
    return next((path for path in _list_files(command) if _is_missing(folder / path)), None)


def _list_files(command: Sequence[str]) -> Iterator[str]:
    """Yield the paths that a command has."""
    program, *arguments = command
    name = Path(program).name
    for interpreter, flags in INTERPRETERS.items():
        if re.fullmatch(interpreter, name):
            while arguments and re.fullmatch(flags, arguments[0]):
                del arguments[0]
            if arguments and not arguments[0].startswith("-"):
                script = arguments.pop(0)
                if Path(script).suffix or not name.startswith("node"):  # which finds server.js
                    yield script
            elif arguments and "=" not in arguments[0]:
                del arguments[:2]  # code, a module, or an option that may have a value
    for argument in arguments:
        if found := _PATH.fullmatch(argument):
            yield found[1]


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # not ours to see
        return False
    return False
