"""Rate limits of an agent's lines, reads and requests, over all connections.

A line that changes or says something counts as a line: too many are refused, or held back where
they come from a pipe. One that only shows something is a read, with a pace of its own, and is held
back but never refused.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection

from sshwarma.common.limits import MAX_READS_PER_WINDOW, RATE_WINDOW_SECONDS
from sshwarma.common.rate_limit import MAX_TRACKED_AGENTS, KeyedTokenBuckets, SlidingWindow
from sshwarma.common.refusals import RefusedBy, count_refusal
from sshwarma.verbs.called_verb import find_typed
from sshwarma.verbs.verb import Verb
from sshwarma.world.access import TokenScope
from sshwarma.world.errors import RateLimited


class LineRateLimiter:
    """The rate limit of typed lines, API calls and MCP requests.

    `lines` is their number, or returns the one in force. `unit` and `after` are words of the
    refusal: the noun that is counted, and what to do after the wait. `counted_as` is their label in
    the metrics.
    """

    def __init__(
        self,
        lines: int | Callable[[], int],
        unit: str = "lines",
        after: str = "Up brings the line back",
        *,
        counted_as: RefusedBy = "lines",
        reads: int = MAX_READS_PER_WINDOW,
        max_agents: int = MAX_TRACKED_AGENTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unit = unit
        self._after = after
        self._counted_as = counted_as
        self._window = SlidingWindow(lines, RATE_WINDOW_SECONDS, max_keys=max_agents, clock=clock)
        self._read_burst = reads
        self._reads = KeyedTokenBuckets(max_agents, clock)

    def __len__(self) -> int:
        return len(self._window)

    def check(self, agent_id: str, after: str = "", unit: str = "") -> None:
        """Count one line.

        `after` replaces what the refusal says to do after the wait, and `unit` what it counts.

        Raises:
            RateLimited: if the agent has sent too many; the line is not counted.
        """
        wait = self._window.hit(agent_id)
        if wait > 0:
            count_refusal(self._counted_as)
            raise RateLimited(
                f"At most {self._window.limit} {unit or self._unit} in"
                f" {RATE_WINDOW_SECONDS:.0f} seconds are accepted.",
                retry_after_seconds=wait,
                hint=f"Wait {math.ceil(wait)} s; {after or self._after}.",
            )

    async def admit(self, agent_id: str, *, is_read: bool, after: str = "") -> None:
        """Count one line or one read; a read over its pace is held back.

        Raises:
            RateLimited: if it is a line, and the agent has sent too many.
        """
        if is_read:
            await self._pace_read(agent_id)
        else:
            self.check(agent_id, after)

    async def hold_back(self, agent_id: str, *, is_read: bool) -> None:
        """Count one line or one read of a pipe; wait while there are too many."""
        if is_read:
            await self._pace_read(agent_id)
            return
        while (wait := self._window.hit(agent_id)) > 0:  # noqa: ASYNC110 - nothing announces the time
            await asyncio.sleep(wait)

    async def _pace_read(self, agent_id: str) -> None:
        """Wait for the turn of a read.

        After the burst each waits a little, none for seconds.
        """
        rate = self._read_burst / RATE_WINDOW_SECONDS
        bucket = self._reads.get(agent_id, rate, self._read_burst)
        if (wait := bucket.take()) > 0:
            await asyncio.sleep(wait)


def is_read_verb(verb: Verb) -> bool:
    """Return whether a verb only shows something, whatever its arguments."""
    return TokenScope.READ == verb.scope == verb.change_scope


def is_read_line(line: str, aliases: Collection[str]) -> bool:
    """Return whether a typed line calls a verb that only shows something.

    `aliases` are the names of the agent's aliases, any of which may change something.
    """
    typed_verb = find_typed(line) if line.startswith("/") else None
    return (
        typed_verb is not None
        and is_read_verb(typed_verb[0])
        and line[1:].split(None, 1)[0].lower() not in aliases
    )
