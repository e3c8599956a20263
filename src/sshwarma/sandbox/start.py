"""Starting a sandbox: bubblewrap, the limits of the kernel, then the program."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
from asyncio import StreamWriter
from asyncio.subprocess import PIPE, STDOUT, Process
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from sshwarma.common.limits import (
    MAX_SANDBOX_ADDRESS_BYTES,
    MAX_SANDBOX_OPEN_FILES,
    MAX_SANDBOX_PROCESSES,
    MAX_SANDBOX_SIGNALS,
    MAX_WORKSPACE_BYTES,
)
from sshwarma.common.pipes import connect_writer
from sshwarma.common.processes import end_process, start_program
from sshwarma.common.units import KIB
from sshwarma.sandbox.bubblewrap import SandboxObstacle, explain_failure
from sshwarma.sandbox.descriptors import make_file, make_mark, open_gate, open_pipe
from sshwarma.sandbox.process_groups import ProcessGroups, remove_group
from sshwarma.sandbox.profile import MachineFiles, list_options
from sshwarma.sandbox.run import Sandbox, SandboxError, SandboxProgram

START_SECONDS: Final = 10.0
"""Seconds in which a sandbox must be made; it takes 20 ms."""

_LIMITERS: Final = ThreadPoolExecutor(1, "limit a sandbox")
"""A thread in which sandboxes get their limit, while all others may be busy."""

_LINE_BYTES: Final = 4 * KIB

NICE_LEVEL: Final = 5
"""Niceness: below the server, when both want the processor."""


async def start_sandbox(
    bubblewrap: Path,
    files: MachineFiles,
    syscall_filter: bytes,
    groups: ProcessGroups | None,
    program: SandboxProgram,
) -> Sandbox:
    """Start a program in a sandbox.

    Args:
        bubblewrap: its path.
        files: what all sandboxes contain.
        syscall_filter: what `make_filter` returns.
        groups: where a server that runs as root limits processes.
        program: what to start.

    Raises:
        SandboxError: if it cannot be made.
    """
    with contextlib.ExitStack() as stack:
        failed = stack.enter_context(contextlib.ExitStack())
        status_reader, status_writer = open_pipe(failed, stack)
        gate, gate_writer = open_gate(stack)
        # In memory, because the arguments of a process can be read inside.
        options = make_file(stack, "\0".join(list_options(program.profile, files)).encode() + b"\0")
        calls = make_file(stack, syscall_filter)
        # The first process inside keeps the file of --sync-fd open as long as it runs.
        inherited = (status_writer, gate, options, calls, make_mark(stack, files.mark))
        source, writer = await _open_input(stack, failed)
        names = ("--json-status-fd", "--block-fd", "--args", "--seccomp", "--sync-fd")
        numbers = [descriptor.number for descriptor in inherited]
        process = await start_program(
            str(bubblewrap),
            *(f"{word}" for option in zip(names, numbers, strict=True) for word in option),
            *("--", *program.command),
            stdin=source,
            stdout=PIPE,
            stderr=STDOUT if program.merge_errors else PIPE,
            pass_fds=numbers,
            env={},  # the first process inside keeps the environment of bubblewrap
            cwd="/",
            start_new_session=True,
        )
        for descriptor in inherited:
            descriptor.close()
        if not program.has_input:
            writer.close()
        report, release = status_reader.number, gate_writer.number
        begun = await _begin(process, report, release, program.cpu_seconds, groups)
        failed.pop_all()
    folder = program.profile.workspace
    return Sandbox(process, writer, begun.init, begun.pidfd, status_reader, folder, begun.group)


async def _open_input(
    stack: contextlib.ExitStack, failed: contextlib.ExitStack
) -> tuple[int, StreamWriter]:
    """Return the end of a pipe for a program, and a stream that writes to the other.

    uvloop's own are sockets, into which a program can write as well, which breaks the stream. The
    null device would be that of the machine, whose mode a program of root could change.
    `stack` closes the end for the program, and `failed` the stream.
    """
    reader, writer = os.pipe()
    stack.callback(os.close, reader)
    stream = await connect_writer(writer)
    failed.callback(stream.close)
    return reader, stream


class _Begun(NamedTuple):
    """The first process of a sandbox, its pidfd, and the group that limits it."""

    init: int
    pidfd: int
    group: Path | None


async def _begin(
    process: Process, status: int, gate: int, cpu_seconds: int, groups: ProcessGroups | None
) -> _Begun:
    """Limit a sandbox and let its program begin.

    Raises:
        SandboxError: if bubblewrap has failed, or its processes cannot be limited.
    """
    with contextlib.ExitStack() as failed:
        group = None
        try:
            init = await _read_init(process, status)
            pidfd = os.pidfd_open(init)
            failed.callback(os.close, pidfd)
            _set_limits(init, cpu_seconds)
            if groups is not None:
                group = await _limit_processes(groups, init)
                failed.callback(remove_group, group)
            os.write(gate, b"\n")
        except BaseException as error:
            await end_process(process, process.stdout, process.stderr)
            if isinstance(error, (ProcessLookupError, BrokenPipeError)):
                raise SandboxError(explain_failure("it ended at its start")) from error
            raise
        failed.pop_all()
    return _Begun(init, pidfd, group)


async def _limit_processes(groups: ProcessGroups, init: int) -> Path:
    """Let the kernel limit the processes of a sandbox; return their group.

    Raises:
        ProcessLookupError: if the sandbox has ended.
        SandboxError: if that cannot be done.
    """
    try:
        return await asyncio.get_running_loop().run_in_executor(_LIMITERS, groups.add, init)
    except ProcessLookupError:
        raise
    except OSError as error:
        raise SandboxError(
            SandboxObstacle(
                f"the number of its processes cannot be limited: {error}",
                "run the server as another user than root",
            )
        ) from error


async def _read_init(process: Process, status: int) -> int:
    """Return the first process of a sandbox, as bubblewrap reports it.

    Raises:
        SandboxError: if bubblewrap failed, with what it said.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await _read_line(status)
    except TimeoutError:
        _kill_group(process)
        raise SandboxError(explain_failure(f"it did not start in {START_SECONDS:.0f} s")) from None
    except asyncio.CancelledError:
        _kill_group(process)
        raise
    if not line:
        _kill_group(process)
        errors = process.stderr or process.stdout
        said = await errors.read() if errors is not None else b""
        raise SandboxError(explain_failure(said.decode(errors="replace")))
    return int(json.loads(line)["child-pid"])


async def _read_line(descriptor: int) -> bytes:
    """Return the first line of a pipe, or what came before its end.

    Without a thread: others may keep those that the server shares busy for longer than a start may
    take.
    """
    loop = asyncio.get_running_loop()
    line = bytearray()
    done = asyncio.Event()

    def read() -> None:
        part = os.read(descriptor, _LINE_BYTES)
        line.extend(part)  # it is written in pieces
        if not part or part.endswith(b"\n"):
            loop.remove_reader(descriptor)
            done.set()

    loop.add_reader(descriptor, read)
    try:
        await done.wait()
    finally:
        loop.remove_reader(descriptor)
    return bytes(line)


def _kill_group(process: Process) -> None:
    """Kill bubblewrap and its child, also if it has ended itself.

    One that may not map users leaves a child behind, which waits for it without end, and keeps the
    pipes open.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _set_limits(init: int, cpu_seconds: int) -> None:
    """Limit the first process inside, which waits, and all that it will start.

    Set on bubblewrap, the limit on processes would count those of the whole user.
    """
    for kind, value in (
        (resource.RLIMIT_NPROC, MAX_SANDBOX_PROCESSES),
        (resource.RLIMIT_AS, MAX_SANDBOX_ADDRESS_BYTES),
        (resource.RLIMIT_FSIZE, MAX_WORKSPACE_BYTES),
        (resource.RLIMIT_NOFILE, MAX_SANDBOX_OPEN_FILES),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_SIGPENDING, MAX_SANDBOX_SIGNALS),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _, hard = resource.prlimit(init, kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.prlimit(init, kind, (bound, bound))
    os.setpriority(os.PRIO_PROCESS, init, NICE_LEVEL)
