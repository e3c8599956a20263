"""Work that has to reach its end, however often its task is cancelled meanwhile.

A cancelled `asyncio.to_thread` returns while its thread goes on. What the thread works on, such as
a folder or a file, must not be given up before its end, nor must the lock that keeps others away.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

from sshwarma.common.background import ignore_outcome

T = TypeVar("T")


class StoppedError(Exception):
    """Work in a thread has ended early, because it was stopped."""


def check_stop(stop: threading.Event | None) -> None:
    """Raise if work in a thread should end.

    Raises:
        StoppedError: then.
    """
    if stop is not None and stop.is_set():
        raise StoppedError


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, even if this task is cancelled repeatedly.

    A shielded cancel scope stops only the cancellations of anyio, and `asyncio.shield` goes on
    without waiting for the end.

    Raises:
        CancelledError: after the end, if the task was cancelled meanwhile; from what `work` raised.
    """
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancellation = error
    if cancellation is not None and not task.cancelled():
        raise cancellation from task.exception()
    return task.result()


async def run_in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run a function in a thread, which has ended when this returns or raises.

    If this task is cancelled, the event is set that the function gets, so that it can end soon by
    raising StoppedError. Work that still waits for a thread is not begun then.

    Raises:
        CancelledError: after the end, if the task was cancelled meanwhile.
    """
    stop = threading.Event()
    claim = threading.Lock()  # the first to take it decides whether the thread works

    def run() -> T:
        if not claim.acquire(blocking=False):
            raise StoppedError
        return work(stop)

    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        await asyncio.wait({running})
    except asyncio.CancelledError:
        stop.set()
        running.add_done_callback(ignore_outcome)
        if not claim.acquire(blocking=False):
            await finish(_wait_for(running))
        raise
    return running.result()


async def _wait_for(task: asyncio.Future[Any]) -> None:
    await asyncio.wait({task})
