"""Times in the lists of the command line, in UTC."""

from __future__ import annotations

from typing import Any


def draw_time(at: str) -> str:
    """Return a time of an operation, which is ISO 8601, as date and minutes."""
    return at[:16].replace("T", " ")


def draw_life(record: dict[str, Any]) -> tuple[str, str, str]:
    """Return when a key or a token was made, expires and was last used."""
    expires, used = record["expires_at"], record["last_used_at"]
    if expires is None:
        end = "no expiry"
    else:
        end = f"{'expired' if record.get('expired') else 'until'} {draw_time(expires)}"
    return (
        f"added {draw_time(record['created_at'])}",
        end,
        f"used {draw_time(used)}" if used else "never used",
    )
