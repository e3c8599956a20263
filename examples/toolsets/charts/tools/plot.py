"""Plots of characters: bars of blocks, lines of Braille dots."""

from __future__ import annotations

WIDTH = 40
"""Columns of a plot, without its labels."""

HEIGHT = 8
"""Lines of a plot with a line; each has four dots."""

EIGHTHS = " ▏▎▍▌▋▊▉"
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a Braille character, by row and column."""


def draw_bars(title: str, labels: list[str], values: list[float]) -> str:
    """Return bars whose lengths differ by an eighth of a column."""
    margin = max(len(label) for label in labels)
    largest = max(values) or 1
    lines = [title]
    for label, value in zip(labels, values, strict=True):
        eighths = round(value / largest * WIDTH * 8)
        bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
        lines.append(f"{label:>{margin}} {bar} {value:g}")
    return "\n".join(lines)


def draw_line(title: str, values: list[float]) -> str:
    """Return a line of dots, two columns and four rows a character."""
    low, high = min(values), max(values)
    columns, rows = 2 * WIDTH, 4 * HEIGHT
    cells = [[0] * WIDTH for _ in range(HEIGHT)]
    before = None
    for column in range(columns):
        value = values[min(column * len(values) // columns, len(values) - 1)]
        share = (value - low) / (high - low) if high > low else 0.5
        row = round((1 - share) * (rows - 1))
        first, last = sorted((row, before if before is not None else row))
        for y in range(first, last + 1):
            cells[y // 4][column // 2] |= DOTS[y % 4][column % 2]
        before = row
    margin = max(len(f"{low:g}"), len(f"{high:g}"))
    lines = [title]
    for number, cell_row in enumerate(cells):
        label = f"{high:g}" if number == 0 else f"{low:g}" if number == HEIGHT - 1 else ""
        lines.append(f"{label:>{margin}} " + "".join(chr(0x2800 + cell) for cell in cell_row))
    return "\n".join(lines)
