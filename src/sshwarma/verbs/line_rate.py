"""The rate limit of an agent's lines and requests, over all its connections."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from sshwarma.common.limits import RATE_WINDOW_SECONDS
from sshwarma.common.rate_limit import SlidingWindow
from sshwarma.world.errors import RateLimited

MAX_TRACKED_AGENTS: Final = 4096


class LineRateLimiter:
    """The rate limit of typed lines, API calls and MCP requests.

    `unit` and `after` are words of the refusal: the noun that is counted, and what to do after the
    wait.
    """

    def __init__(
        self,
        lines: int,
        unit: str = "lines",
        after: str = "Up brings the line back",
        *,
        max_agents: int = MAX_TRACKED_AGENTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unit = unit
        self._after = after
        self._window = SlidingWindow(lines, RATE_WINDOW_SECONDS, max_keys=max_agents, clock=clock)

    def __len__(self) -> int:
        return len(self._window)

    def check(self, agent_id: str, after: str = "") -> None:
        """Count one line. `after` replaces what the refusal says to do after the wait.

        Raises:
            RateLimited: if the agent has sent too many; the line is not counted.
        """
        wait = self._window.hit(agent_id)
        if wait > 0:
            raise RateLimited(
                f"At most {self._window.limit} {self._unit} in {RATE_WINDOW_SECONDS:.0f} seconds"
                " are accepted.",
                retry_after_seconds=wait,
                hint=f"Wait {math.ceil(wait)} s; {after or self._after}.",
            )
