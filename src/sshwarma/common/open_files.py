"""Warnings of a process that runs out of file descriptors.

The event loop closes a connection that it has no descriptor for, and says nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

DESCRIPTORS: Final = Path("/proc/self/fd")

CHECK_SECONDS: Final = 2.0

MIN_FREE_SHARE: Final = 0.05
"""Share of the limit that should be free."""


async def watch_open_files() -> None:
    """Log when few descriptors are left, and when there are enough again."""
    was_short = False
    while True:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = _count_open_files(limit)
        is_short = count >= limit * (1 - MIN_FREE_SHARE)
        if is_short and not was_short:
            log.error(
                "file descriptors run out: new connections fail",
                open=count,
                limit=limit,
                hint="raise LimitNOFILE= of the service, or ulimit -n",
            )
        elif was_short and not is_short:
            log.info("there are enough file descriptors again", open=count, limit=limit)
        was_short = is_short
        await asyncio.sleep(CHECK_SECONDS)


def _count_open_files(limit: int) -> int:
    """Return the number of open descriptors; the limit if none is left to count with."""
    try:
        return len(os.listdir(DESCRIPTORS))  # noqa: PTH208 - the names are enough
    except FileNotFoundError:  # a system without /proc
        return 0
    except OSError as error:
        if error.errno == errno.EMFILE:
            return limit
        raise
