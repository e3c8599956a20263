"""Descriptors of this process: how many are open, and which are closed twice."""

from __future__ import annotations

import asyncio
import errno
import os
from asyncio import BaseTransport
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop

Run = Callable[[Coroutine[Any, Any, None]], None]

LOOPS = pytest.mark.parametrize("run", [uvloop.run, asyncio.run])


def count_open_files() -> int:
    """Return the number of open descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


@dataclass
class Closes:
    """What `os.close` has closed.

    Attributes:
        numbers: each number that was closed.
        twice: those that were not open.
    """

    numbers: list[int] = field(default_factory=list)
    twice: list[int] = field(default_factory=list)


def record_closes(monkeypatch: pytest.MonkeyPatch) -> Closes:
    """Record the calls of `os.close`, until the test ends."""
    found = Closes()
    close = os.close

    def record(number: int) -> None:
        found.numbers.append(number)
        try:
            close(number)
        except OSError as error:
            assert error.errno == errno.EBADF
            found.twice.append(number)
            raise

    monkeypatch.setattr(os, "close", record)
    return found


def is_closed_by_loop(transport: BaseTransport) -> bool:
    """Return whether what the loop was given for a pipe leaves its number open.

    uvloop closes the number and then what it was given, which would close what a thread has opened
    in between. The loop of asyncio closes only what it was given: True.
    """
    if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        return True
    pipe = transport.get_extra_info("pipe")
    number = pipe.fileno()
    spare = os.dup(number)
    pipe.close()
    is_open = Path(f"/proc/self/fd/{number}").exists()
    if not is_open:
        os.dup2(spare, number, inheritable=False)  # for the loop, which uses it
    os.close(spare)
    return is_open
