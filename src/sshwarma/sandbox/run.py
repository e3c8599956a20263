"""A running sandbox: its limits, and its end with everything in it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import signal
from asyncio import StreamWriter
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final

import structlog

from sshwarma.common.limits import (
    MAX_SANDBOXES,
)
from sshwarma.common.processes import end_process
from sshwarma.sandbox.bubblewrap import SandboxObstacle
from sshwarma.sandbox.descriptors import Descriptor
from sshwarma.sandbox.folder_watch import FolderWatch
from sshwarma.sandbox.process_groups import remove_group
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.watch import find_excess

log = structlog.get_logger(__name__)

WATCH_SECONDS: Final = 0.2
"""Seconds between two measurements of the processes."""

FOLDER_SECONDS: Final = 1.0
"""Seconds between two measurements of the files, at least: 10,000 take 50 ms."""

_LOOKERS: Final = ThreadPoolExecutor(MAX_SANDBOXES, "look at a sandbox")
"""Threads for measurements. Programs can make one last seconds, which must not keep the threads
that all others of the server share. Python waits for them at its end."""

_SERVER_LOOKERS: Final = ThreadPoolExecutor(MAX_SANDBOXES, "look at a server's sandbox")
"""Those for what takes no slot, such as servers, of which there can be more than slots."""


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
        has_input: whether there is a pipe to its standard input; else that is empty.
        merge_errors: whether its standard error goes where its output goes.
    """

    profile: Profile
    command: Sequence[str]
    _: KW_ONLY
    cpu_seconds: int
    has_input: bool = False
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
        group: Path | None,
    ) -> None:
        """Take over a sandbox whose first process is `init`."""
        self.process = process
        self.stdin = stdin
        self._status = status  # bubblewrap writes to it at the end
        self._init = init
        self._pidfd = pidfd
        self._folder = folder
        self._group = group
        self.excess = ""
        self._ended = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(pidfd, self._on_end)
        self._watcher: asyncio.Task[None] | None = None
        self._lookers = _LOOKERS

    @property
    def has_ended(self) -> bool:
        """Whether nothing in it runs any more."""
        return self._ended.done()

    def watch(self, *, has_slot: bool = True) -> None:
        """End it when it passes a limit, from now on.

        Before, nothing foreign may run in it. Those with a slot are not measured later because of
        those without.
        """
        self._lookers = _LOOKERS if has_slot else _SERVER_LOOKERS
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
        if self._group is not None:
            remove_group(self._group)

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
        watched = FolderWatch(self._init, self._folder) if self._folder is not None else None
        while not self._ended.done():
            await asyncio.sleep(WATCH_SECONDS)
            excess = await self._look(find_excess, self._init, self._folder)
            if not excess and watched is not None and loop.time() >= next_walk:
                start = loop.time()
                excess = await self._look(watched.look)
                next_walk = loop.time() + max(FOLDER_SECONDS, 10 * (loop.time() - start))
            if excess and not self._ended.done():
                return excess
        return ""

    async def _look(self, find: Callable[..., str], *args: object) -> str:
        """Measure in a thread; what is logged there has the context of this task."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(
            self._lookers, lambda: context.run(find, *args)
        )
