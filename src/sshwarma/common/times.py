"""Times as text for programs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from sshwarma.common.durations import parse_duration

MIN_SECONDS: Final = -62_135_596_800.0
MAX_SECONDS: Final = 253_402_300_799.0
"""The beginning of year 1 and the end of year 9999, in seconds since 1970."""


def format_iso(at_ms: int) -> str:
    """Return a time in milliseconds since 1970 as ISO 8601, in UTC.

    A time that has no year of four digits is the nearest one that has.
    """
    seconds = min(max(at_ms / 1000, MIN_SECONDS), MAX_SECONDS)
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def parse_since(text: str, now_ms: int) -> int:
    """Return the time that somebody typed, in milliseconds since 1970.

    It is so long ago (`30m`, `2h`, `7d`), or a date or time in ISO form, in UTC unless it names an
    offset.

    Raises:
        ValueError: with what is wrong, and what would be right.
    """
    if (seconds := parse_duration(text)) is not None:
        return now_ms - seconds * 1000
    try:
        at = datetime.fromisoformat(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a time. Give 30m, 2h, 7d or 2026-01-31T12:00Z."
        ) from None
