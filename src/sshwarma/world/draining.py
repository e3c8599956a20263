"""Whether the server is about to end, and when: one object that all parts read."""

from __future__ import annotations

import math
import time


class Draining:
    """The state of a server that finishes what runs and begins little that is new.

    Attributes:
        ends_at: when it ends at the latest, in milliseconds since 1970; None if it goes on.
    """

    def __init__(self) -> None:
        self.ends_at: int | None = None
        self._deadline = math.inf  # of the monotonic clock, which nobody sets

    @property
    def is_on(self) -> bool:
        """Whether the server is about to end."""
        return self.ends_at is not None

    @property
    def seconds_left(self) -> float:
        """Seconds until its end, not less than 0; without one, infinite."""
        return max(0.0, self._deadline - time.monotonic())

    def begin(self, seconds: float) -> None:
        """Announce to all parts that the server ends in some seconds."""
        self.ends_at = int((time.time() + seconds) * 1000)
        self._deadline = time.monotonic() + seconds

    def cancel(self) -> None:
        """Let the server go on."""
        self.ends_at, self._deadline = None, math.inf

    def describe(self) -> str:
        """Return when the server restarts, as the beginning of a sentence."""
        at = time.localtime((self.ends_at or 0) / 1000)
        return f"this server restarts at {time.strftime('%H:%M %Z', at).strip()}"
