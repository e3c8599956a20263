"""Starting a sandbox, and ending it with everything in it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import os
import resource
import signal
from asyncio import StreamWriter
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

import structlog

from sshwarma.common.limits import (
    MAX_SANDBOX_ADDRESS_BYTES,
    MAX_SANDBOX_OPEN_FILES,
    MAX_SANDBOX_PROCESSES,
    MAX_SANDBOX_SIGNALS,
    MAX_SANDBOXES,
    MAX_WORKSPACE_BYTES,
)
from sshwarma.common.pipes import connect_writer
from sshwarma.common.processes import end_process, start_program
from sshwarma.common.units import KIB
from sshwarma.sandbox.bubblewrap import SandboxObstacle, explain_failure
from sshwarma.sandbox.descriptors import Descriptor, make_file, make_mark, open_gate, open_pipe
from sshwarma.sandbox.profile import MachineFiles, Profile, list_options
from sshwarma.sandbox.watch import find_excess, find_folder_excess

log = structlog.get_logger(__name__)

START_SECONDS: Final = 10.0
"""Seconds in which a sandbox must be made; it takes 20 ms."""

WATCH_SECONDS: Final = 0.2
"""Seconds between two measurements of the processes."""

FOLDER_SECONDS: Final = 1.0
"""Seconds between two measurements of the files, at least: 10,000 take 50 ms."""

_LOOKERS: Final = ThreadPoolExecutor(MAX_SANDBOXES, "look at a sandbox")
"""Threads for measurements. Programs can make one last seconds, which must not keep the threads
that all others of the server share. Python waits for them at its end."""

_LINE_BYTES: Final = 4 * KIB

NICE_LEVEL: Final = 5
"""Niceness: below the server, when both want the processor."""


class SandboxError(Exception):
    """A sandbox could not be made.

    Attributes:
        obstacle: why, and what to do.
    """

    def __init__(self, obstacle: SandboxObstacle) -> None:
        super().__init__(f"{obstacle.reason}: {obstacle.remedy}")
        self.obstacle = obstacle


@dataclass(frozen=True, slots=True)
class SandboxProgram:
    """A program to start in a sandbox of its own.

    Attributes:
        profile: what the sandbox contains.
        command: the program and its arguments; they can be seen inside.
        cpu_seconds: processor time of each process.
        stdin: whether there is a pipe to its standard input; else that is empty.
        merge_errors: whether its standard error goes where its output goes.
    """

    profile: Profile
    command: Sequence[str]
    _: KW_ONLY
    cpu_seconds: int
    stdin: bool = False
    merge_errors: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program in a sandbox ended.

    Attributes:
        status: its exit status, as a shell reports it; None if the sandbox was ended.
        excess: the limit that it passed, as a clause; "" if none.
    """

    status: int | None
    excess: str = ""


class Sandbox:
    """A running sandbox.

    Attributes:
        process: bubblewrap; its output and errors are those of the program.
        stdin: the standard input of the program; closed if that is empty.
        excess: the limit for which it was ended, as a clause; "" if none.
    """

    def __init__(
        self,
        process: Process,
        stdin: StreamWriter,
        init: int,
        pidfd: int,
        status: Descriptor,
        folder: Path | None,
    ) -> None:
        """Take over a sandbox whose first process is `init`."""
        self.process = process
        self.stdin = stdin
        self._status = status  # bubblewrap writes to it at the end
        self._init = init
        self._pidfd = pidfd
        self._folder = folder
        self.excess = ""
        self._ended = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(pidfd, self._on_end)
        self._watcher: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing in it runs any more."""
        return self._ended.done()

    def watch(self) -> None:
        """End it when it passes a limit, from now on.

        Before, nothing foreign may run in it.
        """
        self._watcher = asyncio.create_task(self._watch())

    async def wait(self) -> Ending:
        """Wait until the program has ended or passed a limit; nothing in it runs then."""
        await asyncio.shield(self._ended)
        status = await self.process.wait()
        await self._close()
        return Ending(None if self.excess else status, self.excess)

    async def stop(self) -> None:
        """End everything in it, and wait for that; what was printed can still be read."""
        self._send_kill()
        await asyncio.shield(self._ended)

    async def kill(self) -> None:
        """End everything in it, and wait for that; unread output is dropped.

        The kernel ends all processes of a sandbox with the first one. To kill bubblewrap and wait
        for it is not enough: others still run for a moment, and write.
        """
        await self.stop()
        await end_process(self.process, self.process.stdout, self.process.stderr)
        await self._close()

    def _send_kill(self) -> None:
        if self._ended.done():
            return  # the descriptor is closed, and may be another's
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def _close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        self.stdin.close()
        await self.process.wait()
        self._status.close()

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._ended.set_result(None)

    async def _watch(self) -> None:
        """End the sandbox when it passes a limit, or cannot be watched."""
        try:
            self.excess = await self._find_excess()
        except Exception:
            log.exception("a sandbox could not be watched")
            self.excess = "it could not be watched"
        if self.excess:
            self._send_kill()

    async def _find_excess(self) -> str:
        """Return the limit that it passes, or "" when it has ended."""
        loop = asyncio.get_running_loop()
        next_walk = loop.time() + FOLDER_SECONDS
        while not self._ended.done():
            await asyncio.sleep(WATCH_SECONDS)
            excess = await _look(find_excess, self._init, self._folder)
            if not excess and self._folder is not None and loop.time() >= next_walk:
                start = loop.time()
                excess = await _look(find_folder_excess, self._folder)
                next_walk = loop.time() + max(FOLDER_SECONDS, 10 * (loop.time() - start))
            if excess and not self._ended.done():
                return excess
        return ""


async def _look(find: Callable[..., str], *args: object) -> str:
    """Measure in a thread; what is logged there has the context of this task."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(
        _LOOKERS, lambda: context.run(find, *args)
    )


async def start_sandbox(
    bubblewrap: Path, files: MachineFiles, syscall_filter: bytes, program: SandboxProgram
) -> Sandbox:
    """Start a program in a sandbox.

    Args:
        bubblewrap: its path.
        files: what all sandboxes contain.
        syscall_filter: what `make_filter` returns.
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
        if not program.stdin:
            writer.close()
        init, pidfd = await _begin(
            process, status_reader.number, gate_writer.number, program.cpu_seconds
        )
        failed.pop_all()
    return Sandbox(process, writer, init, pidfd, status_reader, program.profile.workspace)


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


async def _begin(process: Process, status: int, gate: int, cpu_seconds: int) -> tuple[int, int]:
    """Limit a sandbox and let its program begin; return its first process and pidfd.

    Raises:
        SandboxError: if bubblewrap has failed.
    """
    pidfd = None
    try:
        init = await _read_init(process, status)
        pidfd = os.pidfd_open(init)
        _set_limits(init, cpu_seconds)
        os.write(gate, b"\n")
    except BaseException as error:
        if pidfd is not None:
            os.close(pidfd)
        await end_process(process, process.stdout, process.stderr)
        if isinstance(error, (ProcessLookupError, BrokenPipeError)):
            raise SandboxError(explain_failure("it ended at its start")) from error
        raise
    return init, pidfd


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
