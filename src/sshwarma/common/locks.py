"""Locks whose wait is announced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable


@contextlib.asynccontextmanager
async def hold_lock(
    lock: asyncio.Lock | asyncio.Semaphore, tell: Callable[[str], None], reason: str
) -> AsyncIterator[None]:
    """Hold a lock, or a slot of a semaphore, and announce the wait for it.

    Args:
        lock: what to take; it is given back with the context.
        tell: gets the reason once, before the wait, if others hold the lock or all slots when the
            context is entered; nothing otherwise, and nothing when the wait ends.
        reason: what it waits for, as a sentence.
    """
    if lock.locked():
        tell(reason)
    async with lock:
        yield
