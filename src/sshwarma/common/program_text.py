"""Text for readers that cannot type commands: models, MCP clients, scripts, HTTP clients."""

from __future__ import annotations

import re
from typing import Final

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")

_PARENTHESIS: Final = re.compile(r"\s*\([^()]*\)")
_CLAUSE_END: Final = re.compile(r"(?<=[:;])\s+")

MIN_CLAUSE_WORDS: Final = 4
"""Words of the first part of a sentence that says enough by itself."""

_TYPED: Final = re.compile(
    r"(?<![\w/.:~<\"'])/[a-z]+\b(?![\w.-]*/)"  # a slash command, not a path
    r"|\bssh HOST\b|\bCtrl-|\bUp brings\b|\bTab\b|\bFrom a shell\b|\bslash(?:es)?\b"
    r"|\b[Aa]t a terminal\b|\bline editor\b|\bAlt-"
)


def names_commands(text: str) -> bool:
    """Whether a text names something that only a person at a terminal can type."""
    return _TYPED.search(text) is not None


def drop_commands(text: str) -> str:
    """Leave out what names commands, keys or slashes; keep everything else as it is.

    Left out are parentheses, the rest of a sentence after a colon or semicolon, or, if what is left
    would say nothing, the sentence.
    """
    sentences = map(_drop_from_sentence, _SENTENCE_END.split(text.strip()))
    return " ".join(sentence for sentence in sentences if sentence)


def _drop_from_sentence(sentence: str) -> str:
    if not names_commands(sentence):
        return sentence
    shorter = _PARENTHESIS.sub(lambda part: "" if names_commands(part[0]) else part[0], sentence)
    if not names_commands(shorter):
        return shorter if shorter.strip(".") else ""
    clauses = _CLAUSE_END.split(shorter)
    while clauses and any(map(names_commands, clauses)):
        clauses.pop()
    head = " ".join(clauses).rstrip(":;")
    end = "." if sentence.endswith(".") else ""
    return head + end if head.count(" ") + 1 >= MIN_CLAUSE_WORDS else ""
