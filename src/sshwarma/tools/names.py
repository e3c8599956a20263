"""What a tool is called at each door. Names are resolved by a table built from the very names that
were shown, never by taking one apart.

The canonical name is `namespace:tool`. Models get `namespace__tool` in the alphabet and length
their providers allow; MCP shows `namespace.tool`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from sshwarma.world.loadout import Item

MODEL_LENGTH: Final = 64
"""The longest function name that every provider takes."""

_NOT_FOR_MODELS: Final = re.compile(r"[^A-Za-z0-9_-]")


def for_model(canonical: str) -> str:
    """`git.branch:create` as `git_branch__create`; a longer one is clipped, with a hash."""
    namespace, _, tool = canonical.partition(":")
    name = "__".join(_NOT_FOR_MODELS.sub("_", part) for part in (namespace, tool) if part)
    if len(name) <= MODEL_LENGTH:
        return name
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
    return f"{name[: MODEL_LENGTH - 9]}_{digest}"


def for_mcp(canonical: str) -> str:
    """`git.branch:create` as `git.branch.create`, without spaces."""
    return canonical.replace(":", ".").replace(" ", "_")


class NameTable:
    """The tools of a loadout by every name they go by. A bare tool name counts if one has it."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._known: dict[str, Item] = {}
        bare: dict[str, Item | None] = {}
        for item in items:
            canonical = item.thing.label
            for name in (canonical, for_model(canonical), for_mcp(canonical)):
                self._known.setdefault(name, item)
            short = item.thing.name
            bare[short] = None if short in bare else item
        for short, single in bare.items():
            if single is not None:
                self._known.setdefault(short, single)

    def find(self, name: str) -> Item | None:
        """The tool of that name, in whichever form."""
        return self._known.get(name)
