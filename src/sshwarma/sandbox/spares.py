"""Sandboxes that are started before they are needed, because that takes long."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import structlog

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.limits import MAX_SPARE_SANDBOXES, SPARE_SANDBOX_SECONDS
from sshwarma.sandbox.host import SandboxHost
from sshwarma.sandbox.profile import Profile
from sshwarma.sandbox.run import Sandbox, SandboxError, SandboxProgram

log = structlog.get_logger(__name__)

_Key = tuple[Path | None, tuple[tuple[str, Path], ...]]


@dataclass(frozen=True, slots=True)
class _Spare:
    """A sandbox that waits, the directories in it, and the timer that ends it."""

    sandbox: Sandbox
    directories: tuple[tuple[int, int], ...]
    timer: asyncio.TimerHandle


class SpareSandboxes:
    """Programs that wait for their input, at most one for each profile.

    Each is used once: what one call has left in it never meets the next.
    """

    def __init__(self, host: SandboxHost) -> None:
        """Start sandboxes by a host."""
        self._host = host
        self._waiting: OrderedDict[_Key, _Spare] = OrderedDict()
        self._making: set[_Key] = set()
        self._starts = BackgroundTasks()
        self._ends = BackgroundTasks()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, profile: Profile) -> Sandbox | None:
        """Return a sandbox that was prepared for a profile, or None."""
        spare = self._waiting.pop(_key(profile), None)
        if spare is None:
            return None
        spare.timer.cancel()
        # One that was moved away or deleted stays what the sandbox has.
        if spare.sandbox.has_ended or _identify(profile) != spare.directories:
            self._end(spare.sandbox)
            return None
        return spare.sandbox

    def prepare(self, program: SandboxProgram) -> None:
        """Start a program in the background, unless one waits for its profile.

        It must have a pipe to its input, and do nothing before it reads from that. It is ended
        after SPARE_SANDBOX_SECONDS.
        """
        key = _key(program.profile)
        if key in self._waiting or key in self._making:
            return
        self._making.add(key)
        self._starts.spawn(self._make(key, program), name="spare sandbox")

    async def end_all(self) -> None:
        """End all that wait, and those that are being started."""
        await self._starts.cancel()
        self._making.clear()
        while self._waiting:
            self._expire(next(iter(self._waiting)))
        await self._ends.join()

    async def _make(self, key: _Key, program: SandboxProgram) -> None:
        try:
            directories = _identify(program.profile)
            sandbox = await self._host.start_spare(program)
        except (SandboxError, OSError) as error:  # the next call says so
            log.info("a spare sandbox was not started", reason=str(error))
            return
        finally:
            self._making.discard(key)
        while len(self._waiting) >= MAX_SPARE_SANDBOXES:
            self._expire(next(iter(self._waiting)))
        loop = asyncio.get_running_loop()
        timer = loop.call_later(SPARE_SANDBOX_SECONDS, self._expire, key)
        self._waiting[key] = _Spare(sandbox, directories, timer)

    def _expire(self, key: _Key) -> None:
        spare = self._waiting.pop(key)
        spare.timer.cancel()
        self._end(spare.sandbox)

    def _end(self, sandbox: Sandbox) -> None:
        self._ends.spawn(sandbox.kill(), name="end of a spare sandbox")


def _key(profile: Profile) -> _Key:
    return profile.workspace, tuple(profile.mounts.items())


def _identify(profile: Profile) -> tuple[tuple[int, int], ...]:
    """Return what tells a directory from another one at the same path."""
    paths = (*((profile.workspace,) if profile.workspace else ()), *profile.mounts.values())
    found = [path.stat() for path in paths]
    return tuple((status.st_dev, status.st_ino) for status in found)
