"""Child processes: isolated workers, and programs behind the launcher `spawn.py`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from typing import Final

from sshwarma.common import spawn

TERMINATE_TIMEOUT_SECONDS: Final = 2 * spawn.GRACE_SECONDS
"""Seconds in which the launcher must have ended its program."""


async def start_isolated(*arguments: str, stderr: int = PIPE) -> Process:
    """Start a Python in isolated mode, without an environment, in a session of its own.

    Args:
        arguments: of the interpreter, after `-I`.
        stderr: where its stderr goes; stdin and stdout are pipes.

    Raises:
        OSError: if it cannot start.
    """
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", *arguments),
        stdin=PIPE,
        stdout=PIPE,
        stderr=stderr,
        env={},
        cwd="/",
        start_new_session=True,
    )


def launcher_command(memory: int) -> tuple[str, ...]:
    """Return what precedes the command of a program that must not outlive this process.

    `memory` is its limit, in bytes of data.
    """
    return sys.executable, "-I", "-S", spawn.__file__, str(os.getpid()), str(memory)


def kill_process(process: Process) -> None:
    """Kill a process at once, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def end_launched(process: Process) -> None:
    """End a program through its launcher, and wait for both."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(TERMINATE_TIMEOUT_SECONDS):
            await process.wait()
    except TimeoutError:
        kill_process(process)
        await process.wait()
