"""Names that no tree in a repository may have, and where links may lead.

A client takes them for its own folder `.git`, on one system or another, and runs programs that it
finds there.
"""

from __future__ import annotations

import re
from typing import Final

_GIT_NAMES: Final = frozenset({".git", "git~1"})
"""The folder of git, and the short name that Windows gives it."""

MODULES: Final = ".gitmodules"
ATTRIBUTES: Final = ".gitattributes"

_SHORT_HASHES: Final = {
    name: "|".join(rf"{prefix[:length]}~[1-9][0-9]{{{6 - length}}}" for length in range(7))
    for name, prefix in ((MODULES, "gi7eba"), (ATTRIBUTES, "gi7d29"))
}
"""Short names of Windows with a hash and a number: eight characters together."""


def is_git_name(part: str) -> bool:
    """Return whether a name is, or becomes on some system, that of the folder of git.

    Windows ignores dots and blanks at the end, and what follows a colon; it and macOS ignore case.
    """
    plain = part.partition(":")[0].rstrip(". ").casefold()
    return plain in _GIT_NAMES


def has_git_name(path: str) -> bool:
    """Return whether a part of a path is the name of the folder of git."""
    return any(is_git_name(part) for part in path.split("/"))


def is_special_name(part: str, name: str) -> bool:
    """Return whether a name is, on some system, that of a special file of git.

    Windows has short names, too: `gitmod~1`, or from the fifth file on a hash, such as `gi7eba~1`.

    Args:
        part: the name in a tree.
        name: `.gitmodules` or `.gitattributes`.
    """
    plain = part.partition(":")[0].rstrip(". ").casefold()
    short = re.escape(name[1:7])
    hashed = _SHORT_HASHES[name]
    return plain == name or any(
        re.fullmatch(pattern, plain, re.ASCII) for pattern in (rf"{short}~[1-4]", hashed)
    )


def leaves_tree(target: str, depth: int) -> bool:
    """Return whether a link may lead out of its tree, or into the folder of git.

    `..` counts only at the beginning: behind the name of another link it could lead anywhere.

    Args:
        target: where the link leads.
        depth: folders that the link is in.
    """
    if not target or target.startswith("/") or "\\" in target or "\0" in target:
        return True
    parts = target.split("/")
    ups = 0
    while ups < len(parts) and parts[ups] in ("..", "."):
        ups += 1
    if ".." in parts[ups:] or has_git_name(target):
        return True
    return parts[:ups].count("..") > depth
