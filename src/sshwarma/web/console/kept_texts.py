"""Texts that were kept beside a file whose same lines others had changed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sshwarma.world.agents import AgentDirectory
from sshwarma.world.caller import Caller

_KEPT: Final = re.compile(r"(?P<path>.+)\.from-(?P<who>[^/]+)", re.DOTALL)
"""The path of a kept text; of several of one person, the later ones have a number."""

_NUMBERED: Final = re.compile(r"(?P<who>.+)-\d+")


@dataclass(frozen=True, slots=True)
class KeptText:
    """A text beside the file that it was to replace.

    Attributes:
        path: of the text.
        of: the path of the file.
        whose: "your", or "bob's".
    """

    path: str
    of: str
    whose: str


def read_kept(caller: Caller, path: str, paths: Iterable[str]) -> KeptText | None:
    """Return what a path is as a kept text; None if its file is not there.

    Args:
        caller: who looks at it.
        path: the path.
        paths: those of all files.
    """
    found = _KEPT.fullmatch(path)
    if found is None or found["path"] not in paths:
        return None
    who = _find_author(caller.world.agents, found["who"])
    return KeptText(path, found["path"], "your" if who == caller.agent.name else f"{who}'s")


def list_kept(caller: Caller, path: str, paths: Iterable[str]) -> list[KeptText]:
    """Return the texts that were kept beside a file."""
    found = (read_kept(caller, one, (path,)) for one in sorted(paths))
    return [kept for kept in found if kept is not None]


def _find_author(agents: AgentDirectory, ending: str) -> str:
    """Return who wrote a kept text: names may end as if they were numbered, too."""
    numbered = _NUMBERED.fullmatch(ending)
    if numbered is None or agents.find_by_name(ending) is not None:
        return ending
    return numbered["who"] if agents.find_by_name(numbered["who"]) is not None else ending
