"""A namespace as the search sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexedNamespace:
    """A namespace as the search sees it.

    `tools` are lines such as `push: Send commits`. `keywords` were chosen by people: what a server
    says of itself stands in the other texts.
    """

    id: str
    name: str
    description: str
    keywords: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
