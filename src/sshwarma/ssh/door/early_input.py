"""Input that comes before a terminal takes keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from sshwarma.common.units import KIB
from sshwarma.ssh.transport.interfaces import Channel
from sshwarma.world.errors import WorldError

log = structlog.get_logger(__name__)

MAX_EARLY_INPUT_BYTES: Final = 64 * KIB
"""Input kept while the input history is being read; the client sends no more meanwhile."""


class EarlyInput:
    """Keeps input until the first screen is drawn and the input history is read.

    The first key may be Up. The history is read at the first key, because many logins never
    press one.
    """

    def __init__(
        self,
        channel: Channel,
        history: list[str],
        load_history: Callable[[], Awaitable[list[str]]],
        feed: Callable[[bytes], None],
    ) -> None:
        """Keep the input of a channel; `history` gets what `load_history` returns."""
        self._is_over = False  # whether input is passed on as it comes
        self._channel = channel
        self._history = history
        self._load_history = load_history
        self._feed = feed
        self._kept = bytearray()
        self._on_end: Callable[[], None] | None = None
        self._is_paused = False
        self._is_drawn = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def take(self, data: bytes) -> None:
        """Pass input on, or keep it until the terminal takes keys."""
        if self._is_over:
            self._feed(data)
            return
        self._kept += data
        if len(self._kept) > MAX_EARLY_INPUT_BYTES and not self._is_paused:
            self._is_paused = True
            self._channel.pause_reading()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._pass_on())

    def end(self, on_end: Callable[[], None]) -> None:
        """Call `on_end`, because no more input comes: behind what is kept, or now."""
        if self._kept:
            self._on_end = on_end
        else:
            on_end()

    @property
    def is_drawn(self) -> bool:
        """Whether the first screen is drawn."""
        return self._is_drawn.is_set()

    def on_drawn(self) -> None:
        """Take note that the first screen is drawn."""
        self._is_drawn.set()

    def close(self) -> None:
        """Pass nothing on any more."""
        if self._task is not None:
            self._task.cancel()

    async def _pass_on(self) -> None:
        try:
            self._history.extend(await self._load_history())
        except WorldError as error:
            log.warning("input history could not be read", error=str(error))
        await self._is_drawn.wait()
        kept, self._kept = bytes(self._kept), bytearray()
        self._is_over = True
        self._feed(kept)
        if self._is_paused:
            self._channel.resume_reading()
        if self._on_end is not None:
            self._on_end()
