"""What waits for the writer of a store, and what waits to be published."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

from sshwarma.world.events import Event

T = TypeVar("T")


@dataclass(slots=True)
class WriteJob(Generic[T]):
    """A unit of work, its caller, and what became of it."""

    work: Callable[[Any], T]  # of a `Change`
    answer: asyncio.Future[T]
    may_postpone: bool = False
    result: T | None = None
    error: BaseException | None = None
    events: list[Event] = field(default_factory=list)


@dataclass(slots=True)
class HeardEvents:
    """What other servers have published."""

    events: list[Event]


class News:
    """A mark in the queue of units: other servers may have changed the world."""


NEWS: Final = News()
QueuedJob: TypeAlias = "WriteJob[Any] | News | None"
