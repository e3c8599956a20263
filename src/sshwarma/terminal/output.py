"""Output to one person's terminal, in frames.

Printed blocks and view changes wait for the frame clock, or for a key that is echoed at once.
Rows are written in pieces of MAX_WRITE_BYTES, between which the writer may pause: no block is too
long for a reader. While the writer is full nothing is written. Printed blocks then queue up to a
limit; when the writer has room again, a notice says how many lines were dropped.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sshwarma.common.limits import MAX_QUEUED_BLOCKS
from sshwarma.common.units import KIB
from sshwarma.terminal.clock import FrameClock
from sshwarma.terminal.picture import DELETE_KITTY_IMAGES
from sshwarma.terminal.plain_screen import PlainScreen
from sshwarma.terminal.printed_blocks import PrintedBlocks
from sshwarma.terminal.render import DisplayOptions, render_block
from sshwarma.terminal.screen import Screen, ScreenView, clamp_size
from sshwarma.terminal.text import Block, block, line

MAX_QUEUED_PICTURES: Final = 4
"""Blocks with pictures that wait for a slow reader; the pictures of further ones become words."""

MAX_WRITE_BYTES: Final = 32 * KIB
"""Bytes of rows written at once: much less than a channel buffers before it pauses the writer."""

MAX_CLOSING_BYTES: Final = 256 * KIB
"""Bytes of unwritten rows that are written when the output closes: what a channel buffers."""

PROMPT_DELAY_SECONDS: Final = 1.0
"""Time that a plain screen waits for an answer before it prints the next prompt."""


class TerminalOutput:
    """The output of one person's terminal; `refresh` updates the view before drawing."""

    __slots__ = (
        "_answer", "_bell", "_changed", "_clock", "_pending", "_prelude", "_recent", "_refresh",
        "_repaint", "_screen", "_skipped", "_unwritten", "_unwritten_at", "_write", "look", "open",
        "paused", "view",
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
        self._recent = PrintedBlocks()
        self._unwritten = b""  # the rows of the block that is being written in pieces
        self._unwritten_at = 0  # where the next piece begins
        self._prelude = b""  # written before the next frame: a change of mode
        self._skipped = 0
        self._bell = self._changed = self._repaint = False
        self._answer: TimerHandle | None = None  # set while the prompt waits for an answer

    @property
    def rows(self) -> int:
        """Height of the terminal, in rows."""
        return self._screen.rows

    # -- lifecycle

    def start(self) -> None:
        """Open the output and draw the first frame; blocks printed before are part of it."""
        self.open = True
        self._prelude = self._screen.start
        self.draw()

    def close(self) -> None:
        """Write waiting blocks and restore the terminal, with the cursor on a new line.

        Of more than MAX_CLOSING_BYTES the last are written.
        """
        committed = b"" if self.paused else self._take_last_bytes()
        self.open = False
        self._clock.forget(self)
        self._resume_drawing()
        self._pending.clear()
        self._recent.clear()
        self.view = ScreenView()
        self._write(self._screen.leave() + committed + self._screen.stop)

    def pause(self) -> None:
        """Stop writing: the peer does not read. Printed blocks are queued."""
        self.paused = True

    def resume(self) -> None:
        """Write again; a notice tells how many lines were dropped since `pause`."""
        if self.paused:
            self.paused = False
            if self._skipped:
                self._pending.appendleft(block(line(("dim", f"[{self._skipped} lines skipped]"))))
                self._skipped = 0
            self.request_frame()

    # -- changes

    def request_frame(self) -> None:
        """Draw the changed view with the next frame."""
        self._changed = True
        self._clock.request_frame(self)

    def print(self, block: Block) -> None:
        """Queue a block for the next frame.

        While paused at most MAX_QUEUED_BLOCKS are queued; the oldest is dropped first.
        """
        if (
            block.has_picture
            and sum(queued.has_picture for queued in self._pending) >= MAX_QUEUED_PICTURES
        ):
            block = block.without_pictures()
        self._pending.append(block)
        if self.paused and len(self._pending) > MAX_QUEUED_BLOCKS:
            self._skipped += max(1, len(self._pending.popleft().lines))
        self._clock.request_frame(self)

    def bell(self) -> None:
        """Ring the terminal's bell with the next frame."""
        self._bell = True
        self._clock.request_frame(self)

    def repaint(self) -> None:
        """Draw the whole visible screen again with the next frame."""
        self._repaint = True
        self.request_frame()

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal, within limits; redraw the region if it changed."""
        width, height = clamp_size(columns, rows)
        if (width, height) != (self.look.width, self.rows):
            self._screen.resize(columns if columns > 0 else width, height)
            self.look = self._screen.look = replace(self.look, width=width)
            self.request_frame()
        # Also at the same size: it may have been another one for a moment. Where the terminal has
        # moved the rows above the region, only it knows.
        self._recent.on_resized()
        self._screen.rows_on_screen = 0

    def set_display_options(self, look: DisplayOptions) -> None:
        """Change the display options and repaint the screen with them."""
        if look == self.look:
            return
        if self.open and self.look.image_mode == "kitty" != look.image_mode:
            self._prelude += DELETE_KITTY_IMAGES
        if look.plain != self.look.plain:
            old_screen, self._screen = self._screen, _make_screen(look, self.rows)
            if self.open:
                self._prelude += old_screen.leave() + old_screen.stop + self._screen.start
        self.look = self._screen.look = look
        self._recent.on_resized()  # until it is repainted, which a plain screen is not
        self.repaint()

    # -- what is on the screen

    def has_room_for(self, block: Block) -> bool:
        """Return whether all rows of a block fit on the screen, above the region."""
        room = self.rows - self._screen.region_rows
        return render_block(block, self.look).count(b"\n") <= room

    def is_drawn_for_size(self, block: Block) -> bool:
        """Return whether a block was drawn last for the present size."""
        return self._recent.is_of_present_size(block)

    def shows_all_of(self, block: Block) -> bool:
        """Return whether all of a block is on the screen, drawn for its size.

        Rows that are only probably there count as gone.
        """
        if self._unwritten or not self.is_drawn_for_size(block):
            return False
        count = self._recent.count_rows_from(block)
        return count is not None and count <= self._screen.rows_on_screen

    # -- writing

    def frame(self) -> None:
        """Write the changes since the last frame; called by the frame clock."""
        if not self.open or self.paused:
            return
        if self._answer is not None:
            if not (self._pending or self._unwritten):
                return
            self._resume_drawing()
        output = b"\x07" + self._prelude if self._bell else self._prelude
        self._bell, self._prelude = False, b""
        if self._changed:
            self._refresh(self.view)
            self._screen.mark_stale()
        if self._repaint and not self.look.plain:
            output += self._repaint_screen()
            self._changed = False
        rows = self._take_rows()
        if rows or self._changed:
            output += self._screen_frame(rows)
        self._changed = self._repaint = False
        if output:
            self._write(output)
        while not self.paused and (rows := self._take_rows()):
            self._write(self._screen_frame(rows))

    def _screen_frame(self, rows: bytes) -> bytes:
        """Return the bytes that print rows above the region and draw it."""
        frame = self._screen.frame(self.view, rows)
        if self.look.plain:  # it cannot erase a prompt: that is a row, too
            self._recent.add_rows(frame.count(b"\n") - rows.count(b"\n"))
        return frame

    def _repaint_screen(self) -> bytes:
        """Return the visible screen again, without the block still being written."""
        shown = self._recent.blocks
        rows = self._screen.repaint(self.view, shown[:-1] if self._unwritten else shown)
        self._recent.on_repainted(self.look, self._screen.rows_on_screen)
        return rows

    def draw(self) -> None:
        """Write a frame with the changed view now."""
        self._resume_drawing()
        self._changed = True
        self.frame()

    def echo_typed(self, text: str) -> bool:
        """Echo text typed at the end of the draft; return False if that needs a frame."""
        if self._changed or self.paused or not self.open:
            return False
        echo = self._screen.echo_typed(text, self.view.text)
        if echo is None:
            return False
        self.view.text += text
        self.view.cursor = len(self.view.text)
        self._write(echo)
        return True

    def hold_prompt(self, *, answered: bool) -> None:
        """Leave the submitted line on a plain screen, which can erase nothing.

        It cannot erase a prompt either. So with `answered` the next prompt is printed with the
        answer, or after PROMPT_DELAY_SECONDS.
        """
        if self.open and not self.paused:
            self.draw()
            self._write(self._screen.end_line())
            self._recent.add_rows(1)
            if answered:
                self._answer = self._clock.call_later(PROMPT_DELAY_SECONDS, self.draw)

    def _resume_drawing(self) -> None:
        """Cancel the wait for an answer."""
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def _take_rows(self) -> bytes:
        """Remove and return the next rows to write: all that wait, up to MAX_WRITE_BYTES."""
        blocks = self._pending
        if len(blocks) == 1 and not self._unwritten:  # a line of talk
            rows = self._take_block()
            if len(rows) <= MAX_WRITE_BYTES:
                return rows
            self._unwritten = rows
        pieces: list[bytes] = []
        room = MAX_WRITE_BYTES
        while room > 0 and (self._unwritten or blocks):
            if not self._unwritten:
                self._unwritten = self._take_block()
            piece = self._take_piece(room)
            pieces.append(piece)
            room -= len(piece)
        return b"".join(pieces)

    def _take_block(self) -> bytes:
        """Remove the next block and return its rows."""
        block = self._pending.popleft()
        rows = render_block(block, self.look)
        self._recent.add(block, rows.count(b"\n"))
        return rows

    def _take_piece(self, room: int) -> bytes:
        """Pop whole rows of the unwritten block: about `room` bytes, at least one row."""
        rows, start = self._unwritten, self._unwritten_at
        end = len(rows)
        if end - start > room:
            end = rows.rfind(b"\n", start, start + room) + 1 or rows.find(b"\n", start) + 1 or end
        self._unwritten_at = end
        if end == len(rows):
            self._unwritten, self._unwritten_at = b"", 0
        return rows[start:end]

    def _take_last_bytes(self) -> bytes:
        """Remove all waiting rows; return the last of them."""
        pieces: deque[bytes] = deque()
        size = 0
        while rows := self._take_rows():
            pieces.append(rows)
            size += len(rows)
            while size - len(pieces[0]) > MAX_CLOSING_BYTES:
                size -= len(pieces.popleft())
        return b"".join(pieces)


def _make_screen(look: DisplayOptions, rows: int) -> Screen | PlainScreen:
    return PlainScreen(look, rows) if look.plain else Screen(look, rows)
