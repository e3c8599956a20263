"""Detection of what only people type: slash commands, flags and keys."""

from __future__ import annotations

import re
from typing import Final

_TYPED: Final = re.compile(
    r"(?<![\w/.:~<\"'])/[a-z]+\b(?![\w.-]*/)"  # a slash command, not a path
    r"|(?<![\w-])--[a-z]+"
    r"|\bssh HOST\b|\bCtrl-|\bUp brings\b|\bTab\b|\bFrom a shell\b|\bslash(?:es)?\b"
    r"|\b[Aa]t a terminal\b|\bline editor\b|\bAlt-|\bEnter\b(?! it)"
)


def names_typed(text: str) -> bool:
    """Whether a text names something that only a person at a terminal can type."""
    return _TYPED.search(text) is not None
