"""The sandboxes of a server: whether there can be any, and how many at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import structlog

from sshwarma.common.finish import finish
from sshwarma.common.limits import MAX_SANDBOXES, MAX_SANDBOXES_PER_PERSON
from sshwarma.common.locks import hold_lock
from sshwarma.common.processes import end_abruptly, start_program
from sshwarma.common.units import KIB
from sshwarma.sandbox.bubblewrap import (
    SandboxObstacle,
    check_version,
    explain_failure,
    find_bubblewrap,
)
from sshwarma.sandbox.descriptors import make_file
from sshwarma.sandbox.devices import make_devices
from sshwarma.sandbox.leftovers import end_leftovers, name_mark
from sshwarma.sandbox.process_groups import ProcessGroups, find_process_groups
from sshwarma.sandbox.profile import MachineFiles, Profile
from sshwarma.sandbox.run import Sandbox, SandboxError, SandboxProgram
from sshwarma.sandbox.seccomp import UnknownMachineError, make_filter
from sshwarma.sandbox.start import start_sandbox

log = structlog.get_logger(__name__)

_MAX_VERSION_BYTES: Final = KIB
_END_SECONDS: Final = 1.0

PROBE_SECONDS: Final = 10.0
"""Seconds in which bubblewrap must say its version; it takes some milliseconds."""

CHECK_SECONDS: Final = 15.0
"""Seconds that the check of a sandbox may take."""

CHECK_AGAIN_SECONDS: Final = 60.0
"""Seconds between two checks while there can be no sandbox."""

_CHECK: Final = """
while read -r name value rest; do
    case $name in CapEff:|Seccomp:|NoNewPrivs:) echo "$name$value";; esac
done < /proc/self/status
for process in /proc/[0-9]*; do echo "process"; done
while read -r name rest; do case $name in *:) echo "network $name";; esac; done < /proc/net/dev
if [ -e "$1" ]; then echo "sees $1"; fi
if (echo x > /usr/written) 2>/dev/null || (echo x > /written) 2>/dev/null; then echo "writes"; fi
for file in /proc/[!0-9]* /proc/sys/kernel/core_pattern /proc/pressure/cpu; do
    if [ -w "$file" ] && [ ! -c "$file" ]; then echo "writes $file"; fi
done
for file in /proc/kpagecount /proc/slabinfo /proc/timer_list /proc/vmallocinfo; do
    if [ -f "$file" ] && [ -r "$file" ]; then echo "reads $file"; fi
done
for file in /dev/null /dev/tty /dev/urandom; do
    if chmod 666 "$file" 2>/dev/null; then echo "changes the mode of $file"; fi
done
"""
"""A script of the shell that prints what it sees inside; its argument is a path outside.

What it tries to write or change belongs to root: only programs of a root server could.
"""

_EXPECTED: Final = (
    "NoNewPrivs:1", "CapEff:0000000000000000", "Seccomp:2", "process", "process", "network lo:",
)  # fmt: skip
"""What it prints in a sandbox as it must be: two processes, itself and the first one."""


@dataclass(frozen=True, slots=True)
class SandboxUser:
    """For whom a program runs.

    Attributes:
        id: whose share of the sandboxes it takes.
        report: shows a few words of progress, such as what it waits for; None if nobody sees them.
    """

    id: str
    report: Callable[[str], None] | None = None

    def tell(self, text: str) -> None:
        """Show a few words of progress."""
        if self.report is not None:
            self.report(text)


def _no_spare(_: Profile) -> None:
    return None


class _StuckError(Exception):
    """A program does not end, and cannot be ended."""


class SandboxHost:
    """Makes sandboxes, if a check has shown that they hold."""

    def __init__(self, accounts: Path, hidden: Path, devices: Path) -> None:
        """Prepare sandboxes.

        Args:
            accounts: the directory with the files of /etc inside.
            hidden: a directory that must not be seen inside, such as that of the data.
            devices: where a server that runs as root makes device files, in a directory that
                exists. No two hosts may have the same at a time.
        """
        self._files = MachineFiles(accounts, devices if os.geteuid() == 0 else None)
        self._hidden = hidden
        self._devices = devices
        self._groups: ProcessGroups | None = None
        self._bubblewrap: Path | None = None
        self._filter = b""
        self._slots = asyncio.Semaphore(MAX_SANDBOXES)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._checking = asyncio.Lock()
        self._is_stuck = False
        self.obstacle: SandboxObstacle | None = SandboxObstacle(
            "the sandbox has not been checked yet", "try again in a moment"
        )
        """Why there can be no sandbox now; None if there can be."""

        self.running = 0
        """Sandboxes that run now."""

    @property
    def limits_processes(self) -> bool:
        """Whether the kernel limits the processes of sandboxes, once that was checked."""
        return self._files.devices is None or self._groups is not None

    async def end_leftovers(self) -> None:
        """End what a server of the same directory has left that was killed."""
        if platform.system() != "Linux":
            return
        try:
            ended = await asyncio.to_thread(end_leftovers, name_mark(self._devices))
        except OSError as error:
            log.error("leftover sandboxes could not be ended", reason=str(error))
            return
        if ended:
            log.warning("leftover sandboxes were ended", processes=ended)

    async def check(self) -> SandboxObstacle | None:
        """Find out whether sandboxes work, by making one; return why they do not.

        Until then, and if they do not, none is made: there is no other way to run a program.
        """
        async with self._checking:
            self.obstacle = await self._find_obstacle()
        return self.obstacle

    async def watch(self) -> None:
        """Check again from time to time: somebody may have removed an obstacle."""
        while True:
            await asyncio.sleep(CHECK_AGAIN_SECONDS)
            if self.obstacle is not None and not self._is_stuck and await self.check() is None:
                log.info("sandbox works")

    async def _find_obstacle(self) -> SandboxObstacle | None:
        if platform.system() != "Linux":
            return SandboxObstacle("sandboxes need Linux", "run the server on Linux")
        found = await asyncio.to_thread(find_bubblewrap)
        if isinstance(found, SandboxObstacle):
            return found
        try:
            self._files = replace(self._files, mark=name_mark(self._devices))
            is_root = self._files.devices is not None
            if is_root:
                groups = await asyncio.to_thread(find_process_groups, self._files.mark)
                self._groups = groups
                if groups is not None:
                    await asyncio.to_thread(groups.remove_leftovers)
            self._filter = make_filter(is_root=is_root)
            version = await _read_version(found, self._filter)
            if (obstacle := check_version(version)) is not None:
                return obstacle
            devices = self._files.devices
            if devices and (obstacle := await asyncio.to_thread(make_devices, devices)) is not None:
                return obstacle
            self._bubblewrap = found
            lines = await self._run_check()
        except _StuckError:
            self._is_stuck = True  # each check would leave a process that nobody can end
            return SandboxObstacle(
                f"bubblewrap did not answer in {PROBE_SECONDS:.0f} s: the kernel may take no"
                " filter of system calls any more",
                "restart the machine if its log (dmesg) has hung tasks, then check again",
            )
        except UnknownMachineError as error:
            return SandboxObstacle(str(error), "run the server on x86_64 or aarch64")
        except SandboxError as error:
            return error.obstacle
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"it took over {CHECK_SECONDS:.0f} s"
            return SandboxObstacle(f"bubblewrap failed: {reason}", "run sshwarma doctor")
        if sorted(lines) != sorted(_EXPECTED):
            odd = set(lines) ^ set(_EXPECTED)
            return SandboxObstacle(
                f"the check of a sandbox printed what it must not: {', '.join(sorted(odd))}",
                "report this with the version of your kernel and of bubblewrap",
            )
        return None

    async def _run_check(self) -> list[str]:
        command = ["/bin/sh", "-c", _CHECK, "check", str(self._hidden)]
        async with asyncio.timeout(CHECK_SECONDS):
            sandbox = await self._start(SandboxProgram(Profile(None), command, cpu_seconds=10))
            sandbox.watch()
            try:
                assert sandbox.process.stdout and sandbox.process.stderr  # noqa: S101 - for mypy
                printed = await sandbox.process.stdout.read()
                errors = await sandbox.process.stderr.read()
                await sandbox.wait()
            except BaseException:
                await finish(sandbox.kill())
                raise
        if not printed:
            raise SandboxError(explain_failure(errors.decode(errors="replace")))
        return printed.decode(errors="replace").splitlines()

    def require(self) -> None:
        """Raise if there can be no sandbox now.

        Raises:
            SandboxError: with the obstacle.
        """
        if self.obstacle is not None:
            raise SandboxError(self.obstacle)

    @contextlib.asynccontextmanager
    async def run(
        self,
        program: SandboxProgram,
        user: SandboxUser | None,
        *,
        take_spare: Callable[[Profile], Sandbox | None] = _no_spare,
        has_slot: bool = False,
    ) -> AsyncIterator[Sandbox]:
        """Run a program in a sandbox, which is ended with the context, however that ends.

        Waits while MAX_SANDBOXES run, unless `take_slot` has done so; without a user, for what
        lasts, such as a server, it does not. `take_share` comes before. `take_spare` returns one
        that `start_spare` has started for a profile, if there is one.

        Raises:
            SandboxError: if it cannot be made.
        """
        self.require()
        slot = contextlib.nullcontext() if user is None or has_slot else self.take_slot(user)
        async with slot:
            sandbox = take_spare(program.profile) or await self._start(program)
            sandbox.watch(has_slot=user is not None)
            self.running += 1
            try:
                yield sandbox
            finally:
                # Nothing may write to the files any more when the caller reads them.
                try:
                    await finish(sandbox.kill())
                finally:
                    self.running -= 1

    async def start_spare(self, program: SandboxProgram) -> Sandbox:
        """Start a program that does nothing before it has input, to which it has a pipe.

        It is not counted or watched until `run` takes it.

        Raises:
            SandboxError: if it cannot be made.
        """
        self.require()
        return await self._start(program)

    def take_share(self, user: SandboxUser) -> AbstractAsyncContextManager[None]:
        """Wait until one more sandbox may run for a user, before all other waiting."""
        share = self._shares.setdefault(user.id, asyncio.Semaphore(MAX_SANDBOXES_PER_PERSON))
        reason = f"Waiting: {MAX_SANDBOXES_PER_PERSON} programs of yours run already."
        return hold_lock(share, user.tell, reason)

    def is_busy_for(self, user: SandboxUser) -> bool:
        """Return whether `take_share` or `take_slot` would wait now."""
        share = self._shares.get(user.id)
        return self._slots.locked() or (share is not None and share.locked())

    def take_slot(self, user: SandboxUser) -> AbstractAsyncContextManager[None]:
        """Wait until fewer than MAX_SANDBOXES run; after all other waiting."""
        reason = f"Waiting: {MAX_SANDBOXES} programs run on this server already."
        return hold_lock(self._slots, user.tell, reason)

    async def _start(self, program: SandboxProgram) -> Sandbox:
        assert self._bubblewrap is not None  # noqa: S101 - it was checked
        return await start_sandbox(
            self._bubblewrap, self._files, self._filter, self._groups, program
        )


async def _read_version(program: Path, syscall_filter: bytes) -> str:
    """Return what bubblewrap prints as its version, if it can behind the filter.

    Raises:
        _StuckError: if it does not end. Nothing waits for it then: a kernel that is stuck does not
            end it either, and a start of the server would wait, too.
    """
    with contextlib.ExitStack() as stack:
        calls = make_file(stack, syscall_filter)
        behind = ("--ro-bind", os.sep, os.sep, "--seccomp", f"{calls.number}", str(program))
        for options, files in ((behind, (calls.number,)), ((), ())):
            # A file: one that fails may leave a child, which would keep a pipe open.
            output = make_file(stack, b"").number
            process = await start_program(
                *(str(program), *options, "--version"),
                stdin=DEVNULL, stdout=output, stderr=DEVNULL, env={}, cwd=os.sep, pass_fds=files,
                start_new_session=True,
            )  # fmt: skip
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    await process.wait()
            except TimeoutError:
                raise _StuckError from None
            finally:
                end_abruptly(process)
                with contextlib.suppress(TimeoutError):  # a process that is not stuck ends at once
                    async with asyncio.timeout(_END_SECONDS):
                        await process.wait()
            if printed := os.pread(output, _MAX_VERSION_BYTES, 0):
                return printed.decode(errors="replace")
    return ""
