"""How long a run of a script has left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sshwarma.wrap.protocol import LuaLimits

MAX_STRETCH: Final = 10.0
"""Times `run_seconds` that a run may take in all on a machine that gives its process no processor:
what asks for it waits."""

_MIN_WAIT_SECONDS: Final = 0.02
"""Processor time that is too short to measure; the kernel counts in hundredths of a second."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class RunTime:
    """The time that a run may take: `run_seconds` of the processor.

    If the system does not say it, they are of the clock. A script never sleeps, so that time in
    which its process did not run was others'.

    Attributes:
        ends_at: when the run ends with all that it waits for.
    """

    def __init__(self, pid: int, limits: LuaLimits, clock: Callable[[], float]) -> None:
        """Begin a run in a process."""
        self._pid = pid
        self._limits = limits
        self._clock = clock
        self.ends_at = clock() + limits.total_seconds
        self._waited = 0.0
        self._began_at = _read_processor_seconds(pid)

    def add(self, seconds: float) -> None:
        """Count time in which the script ran, or waited for a processor."""
        self._waited += seconds

    def compute_left(self) -> float:
        """Return how long to wait for the script now; nothing if its time is over."""
        limit, in_all = self._limits.run_seconds, self.ends_at - self._clock()
        if self._waited < limit:
            return min(limit - self._waited, in_all)
        used = _read_processor_seconds(self._pid)
        if used is None or self._began_at is None or self._waited >= MAX_STRETCH * limit:
            return 0.0
        left = limit - (used - self._began_at)
        return min(left, in_all) if left > _MIN_WAIT_SECONDS else 0.0


def _read_processor_seconds(pid: int) -> float | None:
    """Return the processor time of a process; None if the system does not say it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
