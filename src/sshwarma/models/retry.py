"""Retry and backoff of requests to providers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from sshwarma.common.limits import MAX_RETRY_AFTER_SECONDS
from sshwarma.models.backend import BackendError

FIRST_RETRY_SECONDS: Final = 0.5
"""Seconds before the second attempt; each later wait is twice as long, give or take half."""

MAX_RETRY_JITTER: Final = 1.2
"""Maximum factor on a wait that a server asks for, so that its clients do not all retry at once."""


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """A classified failure and its retry policy.

    Attributes:
        error: The error for people.
        max_attempts: Attempts in total, the first one included.
        retry_after_seconds: Seconds that the server asked to wait, if it did.
        reason: Short reason that is shown during the wait.
    """

    error: BackendError
    max_attempts: int = 1
    retry_after_seconds: float | None = None
    reason: str = ""

    def retry_delay(self, tried: int) -> float:
        """Return the seconds before the next attempt, at most MAX_RETRY_AFTER_SECONDS."""
        backoff: float = FIRST_RETRY_SECONDS * 2 ** (tried - 1) * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
        retry_after: float = (self.retry_after_seconds or 0) * random.uniform(1, MAX_RETRY_JITTER)  # noqa: S311 - jitter
        return min(max(backoff, retry_after), MAX_RETRY_AFTER_SECONDS)
