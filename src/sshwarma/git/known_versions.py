"""The versions that a repository in the cache has, with their commits.

They are lines of a text file beside its objects: `VERSION COMMIT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE_NAME: Final = "versions"

FORMAT: Final = "sshwarma 1"
"""The first line: how commits are made. A repository of another format is made again."""


def read_known_versions(repository: Path) -> dict[str, str]:
    """Return the ids of commits by those of versions; none without a repository."""
    try:
        lines = (repository / FILE_NAME).read_text("ascii").split("\n")
    except (OSError, ValueError):
        return {}
    if lines[0] != FORMAT:
        return {}
    pairs = (line.split(" ") for line in lines[1:-1])  # one without an end was cut off
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def write_known_versions(repository: Path, known: Mapping[str, str], work: Path) -> None:
    """Replace the versions of a repository.

    Args:
        repository: where they are.
        known: the ids of commits by those of their versions.
        work: a directory on the same disk for the unfinished file.
    """
    lines = [FORMAT, *(f"{version} {commit}" for version, commit in known.items()), ""]
    unfinished = work / FILE_NAME
    unfinished.write_text("\n".join(lines), "ascii")
    unfinished.replace(repository / FILE_NAME)
