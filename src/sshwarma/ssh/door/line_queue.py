"""The lines of a terminal: one runs, others wait for it, and some run beside it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sshwarma.ssh.door.line_progress import LineProgress
from sshwarma.ssh.door.typed_ahead import TypedLine, is_aside, is_stop
from sshwarma.terminal.terminal import Terminal


class LineQueue:
    """Keeps which line of a terminal runs, which wait, and which run beside it."""

    def __init__(
        self, terminal: Terminal, start_beside: Callable[[TypedLine], asyncio.Task[None]]
    ) -> None:
        """Show progress in a terminal; `start_beside` starts a line beside another."""
        self.waiting: deque[TypedLine] = deque()
        self.progress = LineProgress(terminal, self.waiting, self._run_stops)
        self.is_running = False
        self._start_beside = start_beside
        self._beside: set[asyncio.Task[None]] = set()

    def add(self, given: TypedLine) -> bool:
        """Let a line run beside the one that runs, or wait; return whether it waits."""
        if self.is_running and is_aside(given.text, self.progress):
            self._run_beside(given)
            return False
        self.waiting.append(given)
        self.progress.refresh()
        return True

    @contextmanager
    def running(self) -> Iterator[LineProgress]:
        """Take note that a line runs, and show its progress."""
        self.is_running = True
        try:
            with self.progress as progress:
                yield progress
        finally:
            self.is_running = False

    @property
    def runs_beside(self) -> bool:
        """Whether a line runs beside another."""
        return bool(self._beside)

    async def wait_for_beside(self) -> None:
        """Wait until no line runs beside another."""
        if self._beside:
            await asyncio.wait(self._beside)

    def _run_beside(self, given: TypedLine) -> None:
        running = self._start_beside(given)
        self._beside.add(running)
        running.add_done_callback(self._beside.discard)

    def _run_stops(self) -> None:
        """Run each `/stop` that waits for the running line, which takes long."""
        for given in [one for one in self.waiting if is_stop(one.text)]:
            self.waiting.remove(given)
            self._run_beside(given)
