"""The trigger in whose course something is done, also by the models that it asks.

Rows that are written in the course of a trigger say so, and start no trigger: so nothing that
triggers do, at any distance, starts them again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from sshwarma.world.store import Change

T = TypeVar("T")

running_trigger: ContextVar[str] = ContextVar("running_trigger", default="")
"""Id of the trigger in whose course something runs; tasks that are started there inherit it."""


def mark_cause(work: Callable[[Change], T]) -> Callable[[Change], T]:
    """Return a change that knows the running trigger, if there is one."""
    cause = running_trigger.get()
    if not cause:
        return work

    def run(tx: Change) -> T:
        tx.cause = cause
        return work(tx)

    return run
