"""Text for readers that cannot type commands: models, MCP clients, scripts, HTTP clients."""

from __future__ import annotations

import re
from typing import Final

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")

_TYPED: Final = re.compile(
    r"(?<![\w/.:~<\"'])/[a-z]+\b(?![\w.-]*/)"  # a slash command, not a path
    r"|\bssh HOST\b|\bCtrl-|\bUp brings\b|\bTab\b|\bFrom a shell\b|\bslash(?:es)?\b"
)


def names_commands(text: str) -> bool:
    """Whether a text names something that only a person at a terminal can type."""
    return _TYPED.search(text) is not None


def drop_commands(text: str) -> str:
    """Leave out the sentences that name commands, keys or slashes; keep all others as they are."""
    sentences = _SENTENCE_END.split(text.strip())
    return " ".join(sentence for sentence in sentences if not names_commands(sentence))
