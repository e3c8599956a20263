"""Times as text for programs."""

from __future__ import annotations

from datetime import UTC, datetime

from sshwarma.common.durations import parse_duration


def format_iso(at_ms: int) -> str:
    """Return a time in milliseconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


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
