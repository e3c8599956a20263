"""The blocks that a terminal printed last, and where the rows of each begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sshwarma.terminal.render import DisplayOptions, render_block
from sshwarma.terminal.text import Block

MAX_RECENT_BLOCKS: Final = 200
"""Blocks kept, by reference, to repaint the screen on request."""

MAX_RECENT_PICTURES: Final = 8
"""Blocks with pictures among them; the pictures of older ones are not drawn again."""


@dataclass(slots=True)
class _PrintedBlock:
    """A printed block: the number of its first row, and that of its size."""

    block: Block
    first_row: int
    size_number: int


class PrintedBlocks:
    """The blocks that were printed last, oldest first.

    Rows are numbered from the first that was printed, and sizes of the terminal are, too: a size
    that comes back is another one, because what was drawn meanwhile may be cut.
    """

    __slots__ = ("_printed", "_rows", "_size_number")

    def __init__(self) -> None:
        self._printed: deque[_PrintedBlock] = deque(maxlen=MAX_RECENT_BLOCKS)
        self._rows = 0
        self._size_number = 0

    def __len__(self) -> int:
        return len(self._printed)

    @property
    def blocks(self) -> list[Block]:
        """The blocks."""
        return [printed.block for printed in self._printed]

    def add(self, block: Block, rows: int) -> None:
        """Add a block that is printed now, in `rows` rows."""
        self._printed.append(_PrintedBlock(block, self._rows, self._size_number))
        self._rows += rows
        if block.has_picture:
            self._forget_old_pictures()

    def add_rows(self, count: int) -> None:
        """Count rows that belong to no block, such as an old prompt of a plain screen."""
        self._rows += count

    def clear(self) -> None:
        """Forget the blocks."""
        self._printed.clear()

    def on_resized(self) -> None:
        """Take note that what was printed was drawn for another size."""
        self._size_number += 1

    def on_repainted(self, look: DisplayOptions, height: int) -> None:
        """Take note that the last blocks were drawn again, in the last `height` rows."""
        first_row = self._rows
        for printed in reversed(self._printed):
            if self._rows - first_row >= height:
                break
            first_row -= render_block(printed.block, look).count(b"\n")
            printed.first_row, printed.size_number = first_row, self._size_number

    def is_of_present_size(self, block: Block) -> bool:
        """Return whether a block was drawn last for the present size."""
        found = self._find(block)
        return found is not None and found.size_number == self._size_number

    def count_rows_from(self, block: Block) -> int | None:
        """Return the rows from the first of a block to the last that was printed.

        None if it was not printed, or long ago.
        """
        found = self._find(block)
        return None if found is None else self._rows - found.first_row

    def _find(self, block: Block) -> _PrintedBlock | None:
        """Return where a block was printed last."""
        found: Iterator[_PrintedBlock] = (
            printed for printed in reversed(self._printed) if printed.block is block
        )
        return next(found, None)

    def _forget_old_pictures(self) -> None:
        """Keep the newest MAX_RECENT_PICTURES of the blocks with pictures."""
        with_picture = [printed for printed in self._printed if printed.block.has_picture]
        for printed in with_picture[:-MAX_RECENT_PICTURES]:
            printed.block = printed.block.without_pictures()
