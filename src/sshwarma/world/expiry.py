"""When keys and tokens expire."""

from __future__ import annotations

import math

from sshwarma.common.limits import MAX_TOKEN_DAYS
from sshwarma.common.units import DAY_MS
from sshwarma.world.errors import Invalid
from sshwarma.world.ids import now_ms


def compute_expiry(now: int, days: float | None) -> int | None:
    """Return the time at which what is made now expires; None if it never does.

    Raises:
        Invalid: if `days` is not within 0 and MAX_TOKEN_DAYS.
    """
    if days is None:
        return None
    if not 0 < days <= MAX_TOKEN_DAYS:
        raise Invalid(f"days: must be more than 0 and at most {MAX_TOKEN_DAYS} (got {days:g}).")
    return now + max(1, int(days * DAY_MS))


class Expiring:
    """Base of what may expire.

    `expires_at` is in Unix milliseconds, or None for what never does.
    """

    __slots__ = ()

    expires_at: int | None

    @property
    def expired(self) -> bool:
        """Whether it has expired."""
        return is_expired(self.expires_at)

    @property
    def seconds_left(self) -> float:
        """Seconds until it expires; infinite if it never does."""
        return seconds_until(self.expires_at)


def is_expired(expires_at: int | None) -> bool:
    """Return whether a time of expiry has passed; None never does."""
    return expires_at is not None and expires_at <= now_ms()


def seconds_until(expires_at: int | None) -> float:
    """Return the seconds until a time of expiry; infinite without one."""
    return math.inf if expires_at is None else max(0.0, (expires_at - now_ms()) / 1000)
