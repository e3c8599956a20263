"""Texts and times of sources, as a world can have them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from sshwarma.imports.sqlite_source import Cell

FIRST_TIME_MS: Final = 0
LAST_TIME_MS: Final = 4_102_444_800_000
"""The year 2100: later times are no times."""

_MAX_TIME_BYTES: Final = 64
_SECONDS_BELOW: Final = 100_000_000_000
"""Numbers below count seconds, others milliseconds, since 1970."""


def clean_text(text: str) -> str:
    """Return a text without lone surrogates, which JSON may have."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def parse_time(cell: Cell) -> int | None:
    """Return the time of a value in Unix milliseconds, or None if it has none.

    A text is ISO 8601, as SQLite writes it, and in UTC if it names no zone.
    """
    at: float
    if cell.type in ("integer", "real") and cell.value is not None:
        at = cell.value * 1000 if abs(cell.value) < _SECONDS_BELOW else cell.value
    elif cell.type == "text" and cell.value is not None:
        try:
            moment = datetime.fromisoformat(str(cell.value[:_MAX_TIME_BYTES], "ascii").strip())
            at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
        except (ValueError, OverflowError):
            return None
    else:
        return None
    return int(at) if FIRST_TIME_MS <= at <= LAST_TIME_MS else None
