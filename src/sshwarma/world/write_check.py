"""The check that the world can be written to, for /healthz.

A transaction that changes nothing proves little: a full disk shows when pages are written. So the
check commits one page, and looks at the free space, because the write-ahead log reuses its file: a
small commit may succeed on a disk that has no room for the next message.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from sqlalchemy.exc import DBAPIError

from sshwarma.common.background import ignore_outcome
from sshwarma.common.limits import (
    WRITE_CHECK_SECONDS,
    WRITE_CHECK_TIMEOUT_SECONDS,
)
from sshwarma.world.errors import Unavailable
from sshwarma.world.store import Store
from sshwarma.world.store_errors import DAMAGE_HINT

_NEVER: Final = float("-inf")


class WriteCheck:
    """Tries a write, at most once in WRITE_CHECK_SECONDS; others get the last result."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: asyncio.Task[None] | None = None
        self._succeeded_at = _NEVER

    async def run(self) -> None:
        """Return if the world could be written to in the last WRITE_CHECK_SECONDS.

        Raises:
            Unavailable: with the reason, if it cannot, or a write has not ended after
                WRITE_CHECK_TIMEOUT_SECONDS; or if damage was found since the start: a write of
                one page says nothing of the others.
        """
        if self._store.is_damaged:
            raise Unavailable("The database is damaged.", hint=DAMAGE_HINT)
        if time.monotonic() - self._succeeded_at < WRITE_CHECK_SECONDS:
            return
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._try_write())
            self._running.add_done_callback(ignore_outcome)
        done, _ = await asyncio.wait({self._running}, timeout=WRITE_CHECK_TIMEOUT_SECONDS)
        if not done:  # it goes on: a write that waits for a lock cannot be taken back
            raise Unavailable(
                f"A write did not end within {WRITE_CHECK_TIMEOUT_SECONDS:g} s:"
                f" {self._store.dialect.slow_because}."
            )
        self._running.result()

    async def _try_write(self) -> None:
        await asyncio.to_thread(self._store.dialect.check_place)
        try:
            await self._store.write(lambda tx: self._store.dialect.write_again(tx.conn))
        except DBAPIError as error:
            raise Unavailable("The database could not be written.") from error
        self._succeeded_at = time.monotonic()
