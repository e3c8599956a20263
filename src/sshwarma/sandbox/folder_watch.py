"""What the files of a sandbox use, also if its programs move them behind a look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from sshwarma.common.limits import MAX_WORKSPACE_BYTES, MAX_WORKSPACE_ENTRIES
from sshwarma.sandbox.pause import PauseError, pause
from sshwarma.sandbox.watch import find_folder_excess

_LOOKS_WITHOUT_COUNTS: Final = 5
"""Looks between two at stopped programs, where the file system does not count its files."""


class _Used(NamedTuple):
    """What is used of a whole file system; `files` is 0 if it does not count them."""

    files: int
    size: int


class FolderWatch:
    """Looks at the files of one sandbox.

    A program can move a folder from where a look has not been to where it has been, so that none
    sees it. But what the file system has in all cannot be moved: when that has grown by what a
    room may have, the programs are stopped for a look. Others may have made it grow.
    """

    def __init__(self, init: int, folder: Path) -> None:
        """Watch a folder in which nothing has run yet; `init` is the first process."""
        self._init = init
        self._folder = folder
        self._before = _measure(folder)
        self._looks = 0

    def look(self) -> str:
        """Return which limit the files have passed, as a clause, or ""."""
        self._looks += 1
        excess = find_folder_excess(self._folder)
        if excess or not self._may_be_more():
            return excess
        try:
            with pause(self._init):  # or a look at what runs, where that is not possible
                excess = find_folder_excess(self._folder)
        except FileNotFoundError:
            return ""  # it has ended
        except PauseError:
            return excess or "its files could not be counted"
        self._before = _measure(self._folder)
        return excess

    def _may_be_more(self) -> bool:
        used = _measure(self._folder)
        if not used.files and self._looks % _LOOKS_WITHOUT_COUNTS == 0:
            return True
        return (
            used.files - self._before.files > 2 * MAX_WORKSPACE_ENTRIES
            or used.size - self._before.size > MAX_WORKSPACE_BYTES
        )


def _measure(folder: Path) -> _Used:
    status = os.statvfs(folder)
    files = status.f_files - status.f_ffree
    return _Used(files, (status.f_blocks - status.f_bfree) * status.f_frsize)
