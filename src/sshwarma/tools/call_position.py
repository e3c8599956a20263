"""The order of the rows of tool calls that run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class CallPosition:
    """Place of a call among concurrent ones; its rows follow those of the one before.

    A call that cannot be made still has to `release`.

    Attributes:
        step: number of the step of the turn that makes the calls, from 1; None outside a turn.
        on_result: called when the call has its result, which may wait for others to be recorded.
    """

    def __init__(
        self,
        step: int | None = None,
        before: CallPosition | None = None,
        on_result: Callable[[], None] = lambda: None,
    ) -> None:
        self.step = step
        self.on_result = on_result
        self._before = before
        self._recorded = asyncio.Event()
        self._ended = asyncio.Event()

    async def wait_to_begin(self) -> None:
        """Wait until the previous call is recorded."""
        if self._before is not None:
            await self._before._recorded.wait()

    def mark_begun(self) -> None:
        """Mark the call as recorded."""
        self._recorded.set()

    async def wait_to_end(self) -> None:
        """Wait, with a result, until that of the previous call is recorded."""
        self.on_result()
        if self._before is not None:
            await self._before._ended.wait()

    def release(self) -> None:
        """Mark the call as over, however it ended; no other call waits for it any more."""
        self._recorded.set()
        self._ended.set()
