"""Work that has to reach its end, however often its task is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, even if this task is cancelled repeatedly.

    A shielded cancel scope stops only the cancellations of anyio, and `asyncio.shield` goes on
    without waiting for the end.

    Raises:
        CancelledError: after the end, if the task was cancelled meanwhile.
    """
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancellation = error
    result = task.result()
    if cancellation is not None:
        raise cancellation
    return result
