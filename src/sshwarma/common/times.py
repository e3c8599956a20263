"""Times as text for programs."""

from __future__ import annotations

from datetime import UTC, datetime


def format_iso(at_ms: int) -> str:
    """Return a time in milliseconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
