"""Who a text calls: `@name`, or the start of a name that no other has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sshwarma.world.agents import Agent

_CALL: Final = re.compile(r"(?<![\w.@-])@([a-z][a-z0-9_-]*)", re.IGNORECASE)

PREFIX_LENGTH: Final = 3
"""Letters that the start of a name must have to call somebody: `@al` is too little for alice."""


def names_called(text: str) -> list[str]:
    """The words after `@`, lower-case, in order, each once. An address like a@b calls nobody."""
    found = (word.lower().rstrip("-_") for word in _CALL.findall(text))
    return list(dict.fromkeys(word for word in found if word))


def calls(text: str, name: str) -> bool:
    """Whether a text calls somebody of that name."""
    return any(
        word == name or (len(word) >= PREFIX_LENGTH and name.startswith(word))
        for word in names_called(text)
    )


def called(text: str, agents: Iterable[Agent]) -> list[Agent]:
    """The agents a text calls, in the order it does. The start of several names calls nobody."""
    by_name = {agent.name: agent for agent in agents}
    found: dict[str, Agent] = {}
    for word in names_called(text):
        if word in by_name:
            found[word] = by_name[word]
        elif len(word) >= PREFIX_LENGTH:
            starting = [name for name in by_name if name.startswith(word)]
            if len(starting) == 1:
                found[starting[0]] = by_name[starting[0]]
    return list(found.values())
