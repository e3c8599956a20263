"""Rate limits: a sliding window and token buckets, both counted by key.

Neither sleeps nor raises. The caller decides what happens to an event over the limit: refuse it
(typed lines, registrations), drop it (keys), delay it (MCP messages, key exchanges) or only count
it (log messages).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from cachetools import LRUCache

Clock = Callable[[], float]

MAX_TRACKED_AGENTS: Final = 4096
"""Agents whose rate is remembered, where agents are the keys."""


class SlidingWindow:
    """At most `limit` events within `seconds`, for each key.

    A limit that may change while the program runs is a function, which is asked at each event.

    Memory is bounded: `limit` times for each of `max_keys` keys, of which the least recently used
    is forgotten first.
    """

    __slots__ = ("_clock", "_events", "_limit", "seconds")

    def __init__(
        self,
        limit: int | Callable[[], int],
        seconds: float,
        *,
        max_keys: int,
        clock: Clock = time.monotonic,
    ) -> None:
        self._limit = limit
        self.seconds = seconds
        self._clock = clock
        self._events: LRUCache[str, deque[float]] = LRUCache(max_keys)

    def __len__(self) -> int:
        return len(self._events)

    @property
    def limit(self) -> int:
        """Events of a key that are within the limit now."""
        return self._limit if isinstance(self._limit, int) else self._limit()

    def hit(self, key: str = "") -> float:
        """Count one event of `key`.

        Returns:
            0.0 if it is within the limit; else the seconds until one would be. An event over the
            limit is not counted.
        """
        now = self._clock()
        events = self._events.get(key)
        if events is None:
            events = self._events[key] = deque()
        while events and events[0] <= now - self.seconds:
            events.popleft()
        if len(events) < self.limit:
            events.append(now)
            return 0.0
        return events[0] + self.seconds - now if events else self.seconds


class TokenBucket:
    """`burst` tokens at once, refilled at `rate` a second."""

    __slots__ = ("_burst", "_clock", "_left", "_rate", "_refilled_at")

    def __init__(self, rate: float, burst: float, clock: Clock = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._refilled_at = clock()

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._refilled_at) * self._rate)
        self._refilled_at = now

    def take(self, tokens: float = 1.0) -> float:
        """Take tokens, on credit if there are too few.

        Returns:
            The seconds to wait until the credit is paid back; 0.0 if there was enough.
        """
        self._refill()
        self._left -= tokens
        return max(0.0, -self._left / self._rate)

    def wait_for(self, tokens: float) -> float:
        """Return the seconds until there are enough tokens; 0.0 if there are."""
        self._refill()
        return max(0.0, (tokens - self._left) / self._rate)

    def try_take(self, tokens: float = 1.0) -> bool:
        """Take tokens if there are enough; return whether there were."""
        self._refill()
        if self._left < tokens:
            return False
        self._left -= tokens
        return True


class KeyedTokenBuckets:
    """A token bucket for each key; the least recently used is forgotten first."""

    __slots__ = ("_buckets", "_clock")

    def __init__(self, max_keys: int, clock: Clock = time.monotonic) -> None:
        self._buckets: LRUCache[str, TokenBucket] = LRUCache(max_keys)
        self._clock = clock

    def __len__(self) -> int:
        return len(self._buckets)

    def get(self, key: str, rate: float, burst: float) -> TokenBucket:
        """Return the bucket of a key; `rate` and `burst` are those of a new one."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(rate, burst, self._clock)
        return bucket
