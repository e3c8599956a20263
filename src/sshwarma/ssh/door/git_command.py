"""The commands that git starts on the far side: what they ask for, in which room."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

from sshwarma.git.service_names import FETCH, PUSH

ARCHIVE: Final = "git-upload-archive"

_PROGRAMS: Final = (FETCH, PUSH, ARCHIVE)

USAGE: Final = "git clone ssh://NAME@HOST:PORT/ROOM"


@dataclass(frozen=True, slots=True)
class GitCommand:
    """What a client of git asks for.

    Attributes:
        program: FETCH, PUSH or ARCHIVE.
        room: the name of the room; "" if the path is not one of a room.
    """

    program: str
    room: str


def parse_git_command(command: str) -> GitCommand | None:
    """Return what a command of git asks for; None for other commands."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words[:1] == ["git"] and len(words) > 1:
        words = [f"git-{words[1]}", *words[2:]]
    if not words or words[0] not in _PROGRAMS:
        return None
    paths = [word for word in words[1:] if not word.startswith("--")]
    return GitCommand(words[0], _parse_room(paths[0]) if len(paths) == 1 else "")


def _parse_room(path: str) -> str:
    """Return the room of `/ROOM`, `ROOM` or `ROOM.git`; "" for other paths."""
    name = path.removeprefix("/").removeprefix("~/").rstrip("/").removesuffix(".git")
    return "" if "/" in name else name
