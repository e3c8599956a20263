"""How much one agent may store in a time: logs and files are kept for good."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from sshwarma.common.rate_limit import MAX_TRACKED_AGENTS, KeyedTokenBuckets, TokenBucket
from sshwarma.common.refusals import count_refusal
from sshwarma.common.units import HOUR_SECONDS, MIB
from sshwarma.world.errors import RateLimited


class StoredVolume:
    """The bytes of one kind that each agent may still store.

    A whole hour's share may come at once.
    """

    def __init__(
        self, kind: Literal["text", "files"], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Count what refusals call `kind`: "text", "files"."""
        self._kind = kind
        self._buckets = KeyedTokenBuckets(MAX_TRACKED_AGENTS, clock)

    def take(self, agent_id: str, size: int, mib_per_hour: int) -> None:
        """Count `size` bytes that an agent is about to store.

        Raises:
            RateLimited: if they are more than it may store now; they are not counted.
        """
        bucket = self._find_bucket(agent_id, mib_per_hour)
        if not bucket.try_take(size):
            count_refusal(self._kind)
            wait = max(1.0, bucket.wait_for(size))
            raise RateLimited(
                f"You can store at most {mib_per_hour} MiB of {self._kind} in an hour.",
                retry_after_seconds=wait,
                hint=f"Wait {wait:.0f} s.",
            )

    def charge(self, agent_id: str, size: int, mib_per_hour: int) -> None:
        """Count `size` bytes stored already, such as a tool's result; never refused."""
        self._find_bucket(agent_id, mib_per_hour).take(size)

    def count(self, agent_id: str, size: int, mib_per_hour: int, *, is_stored: bool) -> None:
        """Count `size` bytes: by `charge` if they are stored already, else by `take`."""
        (self.charge if is_stored else self.take)(agent_id, size, mib_per_hour)

    def _find_bucket(self, agent_id: str, mib_per_hour: int) -> TokenBucket:
        burst = mib_per_hour * MIB
        return self._buckets.get(agent_id, burst / HOUR_SECONDS, burst)
