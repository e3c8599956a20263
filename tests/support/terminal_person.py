"""A person at a terminal, for tests: types, looks at the screen, never sleeps.

The loop's time is moved by hand, so nothing sleeps. `MeasuredScreen` is pyte's screen taught to
draw grapheme clusters, as terminals of today do.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Sequence
from typing import Any

from wcwidth import iter_graphemes, wcswidth

from sshwarma.terminal.clock import FRAME_SECONDS, FrameClock
from sshwarma.terminal.completion import Candidate, CompletionSource
from sshwarma.terminal.terminal import Terminal, TerminalCallbacks, TerminalOptions
from sshwarma.terminal.text import Line, block
from support.image_stream import ImageStream
from support.resizable_screen import ResizableScreen


class ManualClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is moved by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def turn(self) -> None:
        """Run what is ready, once."""
        self.call_soon(self.stop)
        self.run_forever()

    def advance(self, seconds: float = FRAME_SECONDS) -> None:
        """Let time pass and everything happen that falls into it."""
        self.now += seconds
        for _ in range(4):
            self.turn()


class MeasuredScreen(ResizableScreen):
    """A screen that draws a cluster into one place, `measure` columns wide."""

    def __init__(
        self, columns: int, rows: int, measure: Callable[[str], int] | None = None
    ) -> None:
        super().__init__(columns, rows, history=5000, ratio=0.5)
        self.measure = measure or (lambda cluster: min(2, wcswidth(cluster)))

    def draw(self, data: str) -> None:
        for cluster in iter_graphemes(data):
            size = self.measure(cluster)
            if cluster.isascii() or size <= 0:
                super().draw(cluster)
                continue
            for _ in range(size // 2):
                super().draw("한")
            for _ in range(size % 2):
                super().draw("x")
            at = max(0, self.cursor.x - size)
            row = self.buffer[self.cursor.y]
            row[at] = row[at]._replace(data=cluster)

    def rows(self) -> list[str]:
        """The visible rows without trailing spaces."""
        return [
            "".join(self.buffer[y][x].data for x in range(self.columns)).rstrip()
            for y in range(self.lines)
        ]

    def everything(self) -> list[str]:
        """The scrollback and the visible rows."""
        above = [
            "".join(row[x].data for x in range(self.columns)).rstrip() for row in self.history.top
        ]
        return above + self.rows()


async def nothing(text: str, cursor: int) -> Sequence[Candidate]:
    return ()


class Person:
    """One Terminal and the glass it writes on."""

    def __init__(
        self,
        loop: ManualClockLoop,
        *,
        columns: int = 40,
        rows: int = 10,
        prompt: str = "> ",
        complete: CompletionSource = nothing,
        measure: Callable[[str], int] | None = None,
        echo: Callable[[str], bool] = lambda text: True,
        history: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.loop = loop
        self.pyte_screen = MeasuredScreen(columns, rows, measure)
        self.stream = ImageStream(self.pyte_screen)
        self.written: list[bytes] = []
        self.lines: list[str] = []
        self.on_line: Callable[[str], None] = self.lines.append
        self.interrupts = 0
        self.eofs = 0
        self.terminal = Terminal(
            self._write,
            TerminalCallbacks(
                lambda text: self.on_line(text), self._interrupted, self._left, complete, echo
            ),
            TerminalOptions(**options),
            columns=columns,
            rows=rows,
            history=history,
            clock=FrameClock(loop),
        )
        self.terminal.set_prompt(("prompt", prompt))
        self.terminal.start()

    def _write(self, data: bytes) -> None:
        self.written.append(data)
        self.stream.feed(data)

    def _interrupted(self) -> None:
        self.interrupts += 1

    def _left(self) -> None:
        self.eofs += 1

    @property
    def bytes(self) -> bytes:
        return b"".join(self.written)

    def type(self, keys: str | builtins.bytes) -> None:
        """Keys in one packet; time does not move, but after Enter the loop turns once."""
        data = keys.encode() if isinstance(keys, str) else keys
        self.terminal.feed(data)
        if b"\r" in data:
            self.loop.turn()

    def wait(self, seconds: float = FRAME_SECONDS) -> None:
        self.loop.advance(seconds)

    def hear(self, *lines: Line | str) -> None:
        """Lines from somebody else, as one block, drawn."""
        self.terminal.print(block(*lines))
        self.wait()

    def resize(self, columns: int, rows: int) -> None:
        self.pyte_screen.resize(rows, columns)
        self.terminal.resize(columns, rows)
        self.wait()

    def rows(self) -> list[str]:
        """Visible rows down to the last that is not empty."""
        rows = self.pyte_screen.rows()
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def cursor(self) -> tuple[int, int]:
        """Column and row of the cursor, from 0."""
        return self.pyte_screen.cursor.x, self.pyte_screen.cursor.y
