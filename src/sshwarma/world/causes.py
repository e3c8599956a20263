"""In whose course something is done: of a trigger, or of a program's request.

Rows that are written in the course of a trigger say so, and start no trigger: so nothing that
triggers do, at any distance, starts them again. Rows of a program say so, too: what it says, notes
or calls is not taken for a person's, who ends an exchange of programs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from sshwarma.world.store import Change

T = TypeVar("T")

running_trigger: ContextVar[str] = ContextVar("running_trigger", default="")
"""Id of the trigger in whose course something runs; tasks that are started there inherit it."""

is_of_program: ContextVar[bool] = ContextVar("is_of_program", default=False)
"""Whether something runs for a request over HTTP or MCP."""


hook_hops: ContextVar[int] = ContextVar("hook_hops", default=0)
"""How many hooks a text has come through, as the one that posted it says."""


def mark_cause(work: Callable[[Change], T]) -> Callable[[Change], T]:
    """Return a change that knows its trigger, and whether a program asked."""
    cause, is_external, hops = running_trigger.get(), is_of_program.get(), hook_hops.get()
    if not cause and not is_external:
        return work

    def run(tx: Change) -> T:
        tx.cause, tx.is_external, tx.hook_hops = cause, is_external, hops
        return work(tx)

    return run
