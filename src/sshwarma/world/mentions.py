"""Mentions in a text: `@name`, or the start of a name that no other agent has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from sshwarma.common.limits import MAX_MENTION_SCAN_CHARACTERS
from sshwarma.world.agents import Agent

_MENTION: Final = re.compile(r"(?<![\w.@-])@([a-z][a-z0-9_-]*)", re.IGNORECASE)

MIN_MENTION_PREFIX_CHARACTERS: Final = 3
"""Minimum length of a mentioned prefix: `@al` is too short for alice."""


def extract_mentions(text: str) -> tuple[str, ...]:
    """Return the words after `@` in order, lower-case, each once; a@b is no mention.

    Only the first MAX_MENTION_SCAN_CHARACTERS of the text are read.
    """
    return _extract_mentions(text[:MAX_MENTION_SCAN_CHARACTERS])


@lru_cache(maxsize=16)  # each viewer of a new row asks for the same text
def _extract_mentions(text: str) -> tuple[str, ...]:
    words = (word.lower().rstrip("-_") for word in _MENTION.findall(text))
    return tuple(dict.fromkeys(word for word in words if word))


def has_mention(text: str, name: str) -> bool:
    """Return whether a text mentions an agent of that name."""
    return any(
        word == name or (len(word) >= MIN_MENTION_PREFIX_CHARACTERS and name.startswith(word))
        for word in extract_mentions(text)
    )


def describe_unknown_mention(text: str, agents: Iterable[Agent]) -> str:
    """Explain why the mention that begins a text calls nobody; "" without one, or if it does."""
    match = _MENTION.match(text)
    word = match[1].lower().rstrip("-_") if match is not None else ""
    names = sorted(agent.name for agent in agents if word and agent.name.startswith(word))
    if not word or word in names:
        return ""
    if not names:
        return f"Unknown agent {word}: nobody was called."
    if len(word) < MIN_MENTION_PREFIX_CHARACTERS:
        minimum = MIN_MENTION_PREFIX_CHARACTERS
        return f"@{word} is too short: type at least {minimum} letters of {' or '.join(names[:4])}."
    if len(names) > 1:
        return f"@{word} is ambiguous: type more of {' or '.join(names[:4])}."
    return ""


def find_mentioned_agents(text: str, agents: Iterable[Agent]) -> list[Agent]:
    """Return the agents a text mentions, in its order. A prefix of several names is ignored."""
    by_name = {agent.name: agent for agent in agents}
    matches: dict[str, Agent] = {}
    for word in extract_mentions(text):
        if word in by_name:
            matches[word] = by_name[word]
        elif len(word) >= MIN_MENTION_PREFIX_CHARACTERS:
            names = [name for name in by_name if name.startswith(word)]
            if len(names) == 1:
                matches[names[0]] = by_name[names[0]]
    return list(matches.values())
