"""Progress of a line that takes long, above the prompt while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from dataclasses import replace
from typing import Final, Self

from sshwarma.terminal.terminal import Terminal
from sshwarma.terminal.text import block, line
from sshwarma.world.caller import Caller

_KEY: Final = "line"
"""The key of the live block; those of turns and calls are ids."""

_WAITING_SECONDS: Final = 1.0
"""Time after which lines that wait are counted: a paste of short commands shows nothing."""


class LineProgress:
    """Shows what a line reports of itself, and how many lines wait for it."""

    def __init__(self, terminal: Terminal, waiting: Sized, on_late: Callable[[], None]) -> None:
        """Show it in a terminal with the number of waiting lines.

        `on_late` is called when it takes long.
        """
        self._terminal = terminal
        self._waiting = waiting
        self._notify_late = on_late
        self._text = ""
        self._is_late = False  # whether lines that wait are shown
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_WAITING_SECONDS, self._on_late)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._text, self._is_late = "", False
        self._terminal.set_live_block(_KEY, None)

    @property
    def is_late(self) -> bool:
        """Whether the line takes long."""
        return self._is_late

    @property
    def is_late_alone(self) -> bool:
        """Whether the line takes long, and no other waits for it."""
        return self._is_late and not self._waiting

    def for_caller(self, caller: Caller) -> Caller:
        """Return a caller whose progress is shown."""
        return replace(caller, on_progress=self._show)

    def refresh(self) -> None:
        """Take note that a line waits, or does not any more."""
        if self._is_late:
            self._draw()

    def _on_late(self) -> None:
        self._is_late = True
        self._notify_late()
        self._draw()

    def _show(self, text: str) -> None:
        self._text = text
        self._draw()

    def _draw(self) -> None:
        shown = [line(("dim", self._text))] if self._text else []
        if self._is_late and (count := len(self._waiting)):
            waits = "1 line waits" if count == 1 else f"{count} lines wait"
            shown.append(line(("dim", f"{waits} for the command that runs. /stop ends it.")))
        elif self._is_late and not self._text:
            shown.append(line(("dim", "The command runs. /stop ends it.")))
        self._terminal.set_live_block(_KEY, block(*shown) if shown else None)
