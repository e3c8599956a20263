"""How much text one agent may store in a time: logs are kept for good."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from cachetools import LRUCache

from sshwarma.common.rate_limit import TokenBucket
from sshwarma.common.units import HOUR_SECONDS, MIB
from sshwarma.world.errors import RateLimited

MAX_TRACKED_AGENTS: Final = 4096


class TextVolume:
    """The bytes that each agent may still store. A whole hour's share may come at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: LRUCache[str, TokenBucket] = LRUCache(MAX_TRACKED_AGENTS)

    def take(self, agent_id: str, size: int, mib_per_hour: int) -> None:
        """Count `size` bytes that an agent is about to store.

        Raises:
            RateLimited: if they are more than it may store now; they are not counted.
        """
        rate = mib_per_hour * MIB / HOUR_SECONDS
        bucket = self._buckets.get(agent_id)
        if bucket is None:
            bucket = self._buckets[agent_id] = TokenBucket(rate, mib_per_hour * MIB, self._clock)
        if not bucket.try_take(size):
            wait = max(1.0, bucket.wait_for(size))
            raise RateLimited(
                f"You have stored {mib_per_hour} MiB of text in an hour, the limit.",
                retry_after_seconds=wait,
                hint=f"Wait {wait:.0f} s.",
            )
