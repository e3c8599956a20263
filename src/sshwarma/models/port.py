"""What a backend is asked and what it answers: the one port, whoever is behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool the model may call, by the name it is to use."""

    name: str
    canonical: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """A call of an earlier step of this turn, and what it gave."""

    call: Call
    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Request:
    """One step of a turn: who asks what in which room, the tools, and the steps before."""

    room: str
    asker: str
    text: str
    offers: tuple[Offer, ...]
    done: tuple[Done, ...] = ()


@dataclass(frozen=True, slots=True)
class Text:
    """Some more of the answer."""

    delta: str


@dataclass(frozen=True, slots=True)
class Call:
    """The model wants a tool called. `id` is the backend's own."""

    id: str
    name: str
    arguments: dict[str, Any]


Part: TypeAlias = Text | Call


class Backend(Protocol):
    """Something that answers."""

    def stream(self, request: Request) -> AsyncIterator[Part]:
        """One step: text as it comes, and calls. A step without calls ends the turn.

        Raises:
            BackendFailed: with words for people.
        """


class BackendFailed(Exception):
    """A backend could not answer; the words say why."""
