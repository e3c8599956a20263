"""Layout of the input: wraps its text into rows and places the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sshwarma.terminal.render import escape_text
from sshwarma.terminal.width import cluster_width, split_clusters, text_width


@dataclass(slots=True)
class InputLayout:
    """The rows of the input after the prompt, and the cursor's place in them.

    `row` and `column` count from 0; the first row's column includes the prompt.
    """

    rows: list[str] = field(default_factory=list)
    row: int = 0
    column: int = 0

    def window(self, height: int) -> tuple[list[str], int, int]:
        """Return up to `height` rows around the cursor, its row in them, and their start."""
        if len(self.rows) <= height:
            return self.rows, self.row, 0
        top = max(0, min(self.row - height // 2, len(self.rows) - height))
        return self.rows[top : top + height], self.row - top, top


def lay_out_input(text: str, cursor: int, columns: int, prompt: int, utf8: bool) -> InputLayout:
    """Lay the text out in rows of `columns`, after a prompt of `prompt` columns.

    Rows after the first are indented to a short prompt. A wrapped row never splits a grapheme
    cluster. The cursor may be one column after the last.
    """
    indent = prompt if prompt <= columns // 3 else 2
    layout = InputLayout()
    start = 0
    for number, line in enumerate(text.split("\n")):
        start_column = prompt if number == 0 else indent
        at = cursor - start
        for row, cell in _wrap_rows(
            line, at if 0 <= at <= len(line) else -1, columns, start_column, indent
        ):
            if cell >= 0:
                layout.row, layout.column = len(layout.rows), cell
            pad = 0 if not layout.rows else indent
            layout.rows.append(
                " " * pad + (row if utf8 or row.isascii() else escape_text(row, utf8))
            )
        start += len(line) + 1
    return layout


def _wrap_rows(
    line: str, cursor: int, columns: int, first: int, indent: int
) -> Iterator[tuple[str, int]]:
    """Yield the rows of a logical line, each with the cursor's column or -1."""
    if line.isascii() and line.isprintable():
        yield from _wrap_ascii_rows(line, cursor, columns, first, indent)
        return
    row: list[str] = []
    column, at, cell = first, 0, -1
    for cluster in split_clusters(line):
        piece = cluster if cluster.isprintable() else escape_text(cluster)
        size = cluster_width(piece) if piece is cluster else text_width(piece)
        if column + size > columns:
            yield "".join(row), cell
            row, column, cell = [], indent, -1
        if at <= cursor < at + len(cluster):
            cell = column
        row.append(piece)
        column += size
        at += len(cluster)
    yield "".join(row), column if cursor == at else cell


def _wrap_ascii_rows(
    line: str, cursor: int, columns: int, first: int, indent: int
) -> Iterator[tuple[str, int]]:
    """Yield the rows of an ASCII line: one column per character, so rows are slices."""
    at, column = 0, first
    while True:
        end = at + columns - column
        is_last = end >= len(line)
        has_cursor = at <= cursor < end or (is_last and cursor == len(line))
        yield line[at:end], column + cursor - at if has_cursor else -1
        if is_last:
            return
        at, column = end, indent
