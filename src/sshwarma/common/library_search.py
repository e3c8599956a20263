"""Searches for libraries, for which Python may write a file."""

from __future__ import annotations

import ctypes.util
from functools import cache, wraps


@cache
def tolerate_full_disks() -> None:
    """Let `ctypes.util.find_library` find nothing where it cannot write a file.

    It raises OSError there, on a machine with a compiler, which it asks for a library that the
    system does not list. asyncssh looks for an optional library whenever it is imported.
    """
    find = ctypes.util.find_library

    @wraps(find)
    def find_or_none(name: str) -> str | None:
        try:
            return find(name)
        except OSError:
            return None

    ctypes.util.find_library = find_or_none
