"""What is written to one person's terminal, and when.

Blocks to print and changes of the view wait for the frame clock, or for a key that is to be echoed
at once. While the writer is full nothing is written; printed blocks queue up to a bound, and what
was dropped is said when the writer has room again.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sshwarma.common.limits import MAX_QUEUED_BLOCKS
from sshwarma.terminal.clock import FrameClock
from sshwarma.terminal.plain_screen import PlainScreen
from sshwarma.terminal.render import DisplayOptions, render_block
from sshwarma.terminal.screen import Screen, ScreenView, clamp_size
from sshwarma.terminal.text import Block, block, line

MAX_RECENT_BLOCKS: Final = 200
"""Blocks kept, by reference, to paint the screen again after a resize."""

PROMPT_DELAY_SECONDS: Final = 1.0
"""Where nothing can be erased, the prompt after a line waits so long for an answer."""


class TerminalOutput:
    """One person's screen. `refresh` brings the view up to date before it is drawn."""

    __slots__ = (
        "_answer", "_bell", "_changed", "_clock", "_pending", "_prelude", "_recent", "_refresh",
        "_repaint", "_screen", "_skipped", "_write", "look", "open", "paused", "view",
    )  # fmt: skip

    def __init__(
        self,
        write: Callable[[bytes], None],
        refresh: Callable[[ScreenView], None],
        clock: FrameClock,
        look: DisplayOptions,
        rows: int,
    ) -> None:
        self.look = look
        self.view = ScreenView()
        self.open = False
        self.paused = False
        self._write = write
        self._refresh = refresh
        self._clock = clock
        self._screen = _make_screen(look, rows)
        self._pending: deque[Block] = deque()
        self._recent: deque[Block] = deque(maxlen=MAX_RECENT_BLOCKS)
        self._prelude = b""  # written before the next frame: a change of mode
        self._skipped = 0
        self._bell = self._changed = self._repaint = False
        self._answer: TimerHandle | None = None  # runs while the prompt waits for an answer

    @property
    def rows(self) -> int:
        return self._screen.rows

    # -- life

    def start(self) -> None:
        self.open = True
        self._prelude = self._screen.start
        self.draw()

    def close(self) -> None:
        """The last bytes: what waits, and a clean terminal with the cursor on a fresh line."""
        committed = b"" if self.paused else self._committed()
        self.open = False
        self._clock.forget(self)
        self._go_on()
        self._pending.clear()
        self._recent.clear()
        self.view = ScreenView()
        self._write(self._screen.leave() + committed + self._screen.stop)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            if self._skipped:
                self._pending.appendleft(block(line(("dim", f"[{self._skipped} lines skipped]"))))
                self._skipped = 0
            self.mark()

    # -- what changes

    def mark(self) -> None:
        """The view has changed: it is drawn with the next frame."""
        self._changed = True
        self._clock.mark(self)

    def print(self, block: Block) -> None:
        self._pending.append(block)
        if self.paused and len(self._pending) > MAX_QUEUED_BLOCKS:
            self._skipped += max(1, len(self._pending.popleft().lines))
        self._clock.mark(self)

    def bell(self) -> None:
        self._bell = True
        self._clock.mark(self)

    def repaint(self) -> None:
        """All that is visible is drawn again."""
        self._repaint = True
        self.mark()

    def resize(self, columns: int, rows: int) -> None:
        columns, rows = clamp_size(columns, rows)
        if (columns, rows) != (self.look.width, self.rows):
            self._screen.rows = rows
            self.look = self._screen.look = replace(self.look, width=columns)
            self.repaint()

    def relook(self, look: DisplayOptions) -> None:
        """Look otherwise from now on, also what is seen already."""
        if look == self.look:
            return
        if look.plain != self.look.plain:
            old, self._screen = self._screen, _make_screen(look, self.rows)
            if self.open:
                self._prelude += old.leave() + old.stop + self._screen.start
        self.look = self._screen.look = look
        self.repaint()

    # -- what is written

    def frame(self) -> None:
        """Write what has changed since the last frame; the frame clock calls this."""
        if not self.open or self.paused:
            return
        if self._answer is not None:
            if not self._pending:
                return
            self._go_on()
        out = b"\x07" + self._prelude if self._bell else self._prelude
        self._bell, self._prelude = False, b""
        if self._changed:
            self._refresh(self.view)
            self._screen.stale()
        if self._repaint and not self.look.plain:
            self._recent.extend(self._pending)
            self._pending.clear()
            out += self._screen.repaint(self.view, self._recent)
        elif self._pending or self._changed:
            out += self._screen.frame(self.view, self._committed())
        self._changed = self._repaint = False
        if out:
            self._write(out)

    def draw(self) -> None:
        """Write a frame now: the view has changed and somebody waits to see it."""
        self._go_on()
        self._changed = True
        self.frame()

    def typed(self, text: str) -> bool:
        """Echo text typed at the end of the draft; False where only a frame can show it."""
        if self._changed or self.paused or not self.open:
            return False
        echo = self._screen.typed(text, self.view.text)
        if echo is None:
            return False
        self.view.text += text
        self.view.cursor = len(self.view.text)
        self._write(echo)
        return True

    def keep(self, *, answered: bool) -> None:
        """Leave the line with the draft above as it stands, as where nothing can be erased. Nor
        can a prompt be: where an answer is due, the next comes with it, if that is there soon."""
        if self.open and not self.paused:
            self.draw()
            self._write(self._screen.submitted())
            if answered:
                self._answer = self._clock.after(PROMPT_DELAY_SECONDS, self.draw)

    def _go_on(self) -> None:
        """The prompt waits no longer."""
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def _committed(self) -> bytes:
        """The rows of all blocks that wait."""
        pending = self._pending
        if not pending:
            return b""
        look = self.look
        self._recent.extend(pending)
        if len(pending) == 1:
            return render_block(pending.popleft(), look)
        rows = b"".join([render_block(block, look) for block in pending])
        pending.clear()
        return rows


def _make_screen(look: DisplayOptions, rows: int) -> Screen | PlainScreen:
    return PlainScreen(look, rows) if look.plain else Screen(look, rows)
