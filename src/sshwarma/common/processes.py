"""Child processes: isolated workers, and programs behind the launcher `spawn.py`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from asyncio import StreamReader
from asyncio.subprocess import PIPE, Process
from functools import cache
from pathlib import Path
from typing import Any, Final

from sshwarma.common import spawn
from sshwarma.common._asyncio_subprocess import (
    close_process_transport,
    has_process_descriptors,
    start_by_vfork,
)
from sshwarma.common.units import KIB

TERMINATE_TIMEOUT_SECONDS: Final = 2 * spawn.GRACE_SECONDS
"""Seconds in which the launcher must have ended its program."""

DISCARD_BYTES: Final = 64 * KIB
"""Bytes of unread output that are dropped at once."""


SOURCE_FOLDER: Final = str(Path(__file__).parents[2])
"""The directory that has this program's package."""


def program_of(module: str) -> str:
    """Return a Python program that runs `main` of a module.

    It is for an isolated Python that finds only the standard library (`-I -S`): its arguments are
    the directories that the module needs, SOURCE_FOLDER and those of `find_library_folder`. As an
    import the module is compiled once; a script would be compiled at each start.
    """
    return f"import sys; sys.path += sys.argv[1:]; from {module} import main; main()"


async def start_program(
    *command: str,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    **options: Any,
) -> Process:
    """Start a program, without a copy of this process where that is possible.

    Args:
        command: the program and its arguments.
        stdin: a descriptor, PIPE, DEVNULL, or None for that of this process.
        stdout: as `stdin`.
        stderr: as `stdin`, or STDOUT.
        options: others of `subprocess.Popen`.

    Raises:
        OSError: if it cannot start.
    """
    if not has_process_descriptors():
        return await asyncio.create_subprocess_exec(
            *command, stdin=stdin, stdout=stdout, stderr=stderr, **options
        )
    return await start_by_vfork(command, stdin, stdout, stderr, **options)


async def start_isolated(*arguments: str, stderr: int = PIPE) -> Process:
    """Start an isolated Python without an environment, in a session of its own.

    Args:
        arguments: of the interpreter, after `-I`.
        stderr: where its stderr goes; stdin and stdout are pipes.

    Raises:
        OSError: if it cannot start.
    """
    return await start_program(
        *(sys.executable, "-I", *arguments),
        stdin=PIPE,
        stdout=PIPE,
        stderr=stderr,
        env={},
        cwd="/",
        start_new_session=True,
    )


@cache
def find_library_folder(module: str) -> str:
    """Return the directory that has an installed module, which is not imported.

    An isolated Python that is started with `-S` finds only the standard library: this goes on its
    path.

    Raises:
        ModuleNotFoundError: if it is not installed.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{module} is not installed")
    return str(Path(spec.origin).parents[1])


def launcher_command(memory: int) -> tuple[str, ...]:
    """Return the command prefix of a program that must not outlive this process.

    `memory` is its limit, in bytes of data.
    """
    return sys.executable, "-I", "-S", spawn.__file__, str(os.getpid()), str(memory)


def kill_process(process: Process) -> None:
    """Kill a process and what it has started in its session, if it still runs."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


async def end_process(process: Process, *unread: StreamReader | None) -> None:
    """Kill a process and wait for its end.

    `Process.wait` waits for the end of its pipes too, and a pipe whose buffer is full is not read:
    without `unread` it would wait forever.

    Args:
        process: one that leads a session, as those of `start_isolated` and behind the launcher do.
        unread: those of its stdout and stderr that nobody reads now. What they hold is dropped.
    """
    kill_process(process)
    await asyncio.gather(process.wait(), *(_discard(stream) for stream in unread if stream))


def close_pipes(process: Process) -> None:
    """Close the pipes of an ended process without waiting for garbage collection."""
    close_process_transport(process)


def end_abruptly(process: Process) -> None:
    """Kill a process and its session, and close its pipes, without waiting for it.

    The others of the session are killed, too, if the process itself has ended.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    close_pipes(process)


async def _discard(stream: StreamReader) -> None:
    while await stream.read(DISCARD_BYTES):
        pass


async def end_launched(process: Process, *unread: StreamReader | None) -> None:
    """End a program through its launcher, and wait for both.

    `unread` is as for `end_process`.
    """
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(TERMINATE_TIMEOUT_SECONDS):
            await asyncio.gather(process.wait(), *(_discard(stream) for stream in unread if stream))
    except TimeoutError:
        await end_process(process, *unread)


def read_cpu_ticks(process: int) -> int:
    """Return the processor time that a process has used, in ticks of the kernel.

    Returns:
        0 if it has ended, or the system has no /proc.
    """
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    # The name of the program, in brackets, may have blanks and brackets.
    fields = status.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
