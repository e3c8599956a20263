"""Child processes started by vfork: the one file for private names of asyncio.

uvloop starts a process by fork, which copies the page tables of this one while the event loop
waits, 4 ms for each 100 MB, and makes each page that is written later a fault.
`subprocess.Popen` uses vfork, which copies nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from asyncio import BaseTransport, StreamWriter
from asyncio.base_subprocess import BaseSubprocessTransport
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from typing_extensions import override

from sshwarma.common.pipes import REFUSALS, PipeEnd
from sshwarma.common.units import KIB

STREAM_LIMIT_BYTES: Final = 64 * KIB
"""Bytes of an output that are read ahead: asyncio's own default."""


@cache
def has_process_descriptors() -> bool:
    """Return whether a process can be waited for by a descriptor: Linux since 5.3."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except AttributeError:
        return False
    except OSError as error:
        return error.errno not in (errno.ENOSYS, errno.EPERM)
    return True


class _Input(StreamWriter):
    """The input of a program.

    What it does not read any more is dropped, as by asyncio's own;
    uvloop raises RuntimeError for it. `drain` raises a ConnectionError with either.
    """

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.transport.is_closing():
            super().write(data)


class _Protocol(SubprocessStreamProtocol):
    @override
    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        if self.stdin is not None:
            self._replaced = self.stdin  # kept: it closes the pipe when it is deleted
            self.stdin = _Input(self.stdin.transport, self, None, asyncio.get_running_loop())


class _Transport(BaseSubprocessTransport):
    """A child process whose end is seen through a descriptor of it."""

    def _start(
        self,
        args: Any,
        shell: bool,
        stdin: Any,
        stdout: Any,
        stderr: Any,
        bufsize: int,
        **kwargs: Any,
    ) -> None:
        self._proc = process = subprocess.Popen(  # noqa: S603 - the caller says which
            args, bufsize, stdin=stdin, stdout=stdout, stderr=stderr, shell=shell, **kwargs
        )
        self._ends: dict[int, PipeEnd] = {}
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            file = getattr(process, name)
            if file is not None:
                self._ends[number] = end = PipeEnd(os.dup(file.fileno()))
                file.close()  # it cannot give its number away, and would close that, too
                setattr(process, name, end)
        self._pidfd = os.pidfd_open(self._proc.pid)
        self._loop.add_reader(self._pidfd, self._end)

    def close_refused(self) -> None:
        """Close the pipes that the loop did not take, after one of REFUSALS."""
        for number, end in self._ends.items():
            if self._pipes[number] is None:
                end.close_refused()

    def _end(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        assert self._proc is not None  # noqa: S101 - it is kept until this
        self._process_exited(self._proc.wait())


async def start_by_vfork(
    command: Sequence[str],
    stdin: int | None,
    stdout: int | None,
    stderr: int | None,
    **options: Any,
) -> Process:
    """Start a program as `asyncio.create_subprocess_exec` does.

    Args:
        command: the program and its arguments.
        stdin: a descriptor, PIPE, DEVNULL or None for that of this process.
        stdout: as `stdin`.
        stderr: as `stdin`, or STDOUT.
        options: other options of `subprocess.Popen`.

    Raises:
        OSError: if it cannot start.
    """
    loop = asyncio.get_running_loop()
    protocol = _Protocol(STREAM_LIMIT_BYTES, loop)
    connected = loop.create_future()
    transport = _Transport(
        loop, protocol, command, False, stdin, stdout, stderr, 0, waiter=connected, **options
    )
    try:
        await connected
    except BaseException as error:
        transport.close()
        if isinstance(error, REFUSALS):
            transport.close_refused()
        raise
    return Process(transport, protocol, loop)


def close_process_transport(process: Process) -> None:
    """Close the pipes of a process at once, and kill it if it still runs."""
    transport = getattr(process, "_transport", None)
    if isinstance(transport, BaseTransport):
        transport.close()
