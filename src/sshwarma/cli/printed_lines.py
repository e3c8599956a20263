"""Lines and columns that commands print, with control characters made visible."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from sshwarma.cli.streams import reporting_lost_output


def print_lines(lines: Iterable[str], *, to_stderr: bool = False) -> None:
    """Print lines with the control characters of others made visible, and flush.

    Everything that a command prints for people goes through it: names, labels and requests are
    what others have chosen, and so are the answers of a server.
    """
    from sshwarma.terminal.escape import escape_lines

    if to_stderr:
        for text in lines:
            print(escape_lines(text), file=sys.stderr, flush=True)
        return
    with reporting_lost_output():
        for text in lines:
            print(escape_lines(text), flush=True)


def print_json(value: Any) -> None:
    """Print a result as JSON, and flush."""
    with reporting_lost_output():
        print(json.dumps(value, indent=2), flush=True)


def align_columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Join the cells of each row, each column as wide as its widest cell."""
    from sshwarma.terminal.escape import escape_controls

    table = [[escape_controls(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
