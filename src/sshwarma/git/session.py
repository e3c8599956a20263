"""One session: bytes between a client and its process, and what the process says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from sshwarma.common.limits import (
    GIT_CPU_SECONDS,
    GIT_IDLE_SECONDS,
    GIT_TIMEOUT_SECONDS,
    MAX_GIT_MEMORY_BYTES,
)
from sshwarma.common.processes import read_cpu_ticks
from sshwarma.common.units import KIB, MIB
from sshwarma.git.accept import CheckedPush, accept_push
from sshwarma.git.access import GitAccess
from sshwarma.git.frames import DATA, HEAD, MAX_FRAME_BYTES, STATE
from sshwarma.git.pkt_line import BRANCH, encode_report
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world.caller import Caller
from sshwarma.world.errors import TimedOut, Unavailable, WorldError

log = structlog.get_logger(__name__)

MAX_STDERR_BYTES: Final = 4 * KIB
"""Bytes of what the process writes to standard error that are kept for the log."""


class ByteStream(Protocol):
    """The client, at its own pace."""

    async def read(self) -> bytes:
        """Return what has come; b"" at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes, as fast as the client reads."""


class DamagedRepositoryError(Exception):
    """The repository in the cache must be made again."""

    def __init__(self, reason: str, *, was_answered: bool) -> None:
        super().__init__(reason)
        self.was_answered = was_answered


class GitSession:
    """One process and its client."""

    def __init__(
        self,
        process: Process,
        stream: ByteStream,
        work: Path,
        workspaces: Workspaces,
        access: GitAccess,
    ) -> None:
        """Connect a client with a process that was just started."""
        assert process.stdin and process.stdout and process.stderr  # noqa: S101 - for mypy
        self._process = process
        self._input = process.stdin
        self._output = process.stdout
        self._error = process.stderr
        self._stream = stream
        self._work = work
        self._workspaces = workspaces
        self._access = access
        self._moved_at = time.monotonic()
        self._was_answered = False
        self._is_storing = False

    async def prepare(self, head: bytes, versions: AsyncIterator[bytes]) -> None:
        """Send the request and the versions; wait until the repository is up to date.

        Raises:
            WorldError: if it cannot be.
            DamagedRepositoryError: if it must be made again.
        """
        async with _limit_time(), _task_group() as group:
            sending = group.create_task(self._send_versions(head, versions))
            try:
                kind, body = await self._read_frame()
            finally:
                sending.cancel()
        state = await asyncio.to_thread(_read_state, kind, body)
        if state["state"] != "ready":
            self._refuse(state)

    async def run(self, caller: Caller, base_id: str | None) -> None:
        """Serve the client until the process has ended.

        Args:
            caller: who asks, in the room.
            base_id: the version that the repository has.

        Raises:
            WorldError: if it fails before the client was answered, or takes too long.
            DamagedRepositoryError: if the repository must be made again.
        """
        self._moved_at = time.monotonic()
        async with _limit_time(), _task_group() as group:
            feeding = group.create_task(self._feed())
            watching = group.create_task(self._watch())
            try:
                await self._pump(caller, base_id)
            finally:
                feeding.cancel()
                watching.cancel()

    async def _send_versions(self, head: bytes, versions: AsyncIterator[bytes]) -> None:
        with contextlib.suppress(ConnectionError):  # it has ended: its last frame says why
            self._input.write(head)
            async for line in versions:
                self._input.write(line)
                await self._input.drain()
            self._input.write(b"\n")
            await self._input.drain()

    async def _feed(self) -> None:
        """Give the process what the client sends."""
        with contextlib.suppress(ConnectionError):
            while data := await self._stream.read():
                self._moved_at = time.monotonic()
                self._input.write(data)
                await self._input.drain()
            self._input.close()

    async def _watch(self) -> None:
        """Raise when nothing has moved for long.

        A process that works has GIT_CPU_SECONDS, and the client has to know what was stored.

        Raises:
            TimedOut: then.
        """
        worked = read_cpu_ticks(self._process.pid)
        while True:
            left = self._moved_at + GIT_IDLE_SECONDS - time.monotonic()
            if left > 0:
                await asyncio.sleep(left)
                continue
            works = read_cpu_ticks(self._process.pid)
            if works == worked and not self._is_storing:
                break
            worked, self._moved_at = works, time.monotonic()
        raise TimedOut(f"It timed out: nothing was sent or read for {GIT_IDLE_SECONDS:.0f} s.")

    async def _pump(self, caller: Caller, base_id: str | None) -> None:
        """Give the client what the process sends, until the process ends."""
        while True:
            kind, body = await self._read_frame()
            if kind == DATA:
                self._was_answered = True
                await self._stream.write(body)
                self._moved_at = time.monotonic()
            elif not kind:
                return
            else:
                state = await asyncio.to_thread(_read_state, kind, body)
                if state["state"] != "push":
                    self._refuse(state)
                await self._accept(caller, base_id, state)

    async def _accept(self, caller: Caller, base_id: str | None, state: dict[str, Any]) -> None:
        """Make a version of a push, and report to the client."""
        reason = ""
        self._is_storing = True
        try:
            push = await asyncio.to_thread(CheckedPush.parse, state, base_id, self._work)
            await accept_push(caller, self._workspaces, push, self._access)
        except WorldError as error:
            log.info("a push was refused", reason=str(error), agent=caller.agent.name)
            reason = str(error)
        finally:
            self._is_storing = False
            self._moved_at = time.monotonic()
        report = encode_report(BRANCH, reason, side_band=bool(state.get("side_band")))
        await self._stream.write(report)

    async def _read_frame(self) -> tuple[bytes, bytes]:
        """Return the kind and body of the next frame; none at the end.

        Raises:
            Unavailable: if the process failed.
        """
        try:
            kind, size = HEAD.unpack(await self._output.readexactly(HEAD.size))
            if size > MAX_FRAME_BYTES:
                raise Unavailable("git cannot be served: its process failed.")
            return kind, await self._output.readexactly(size)
        except asyncio.IncompleteReadError as error:
            tail = (await self._error.read())[-MAX_STDERR_BYTES:].decode(errors="replace")
            status = await self._process.wait()
            if status == 0 and not error.partial:
                return b"", b""
            log.error("a process for git failed", status=status, stderr=tail)
            raise Unavailable(_describe_end(status)) from None

    def _refuse(self, state: dict[str, Any]) -> None:
        """Raise what a state means that is no success.

        Raises:
            Unavailable: with the reason.
            DamagedRepositoryError: if the repository must be made again.
            ConnectionError: if the client broke off.
        """
        reason = str(state.get("reason", ""))
        match state["state"]:
            case "damaged":
                raise DamagedRepositoryError(reason, was_answered=self._was_answered)
            case "broken":
                raise ConnectionError(reason or "the client has hung up")
            case "content":
                log.error("a content is damaged", sha256=state.get("sha256"))
                raise Unavailable(
                    "A content of the room's files is missing or damaged in the data directory.",
                    hint="A backup that has it can be restored.",
                )
            case "memory":
                raise Unavailable(
                    f"It needs more than {MAX_GIT_MEMORY_BYTES // MIB} MiB of memory."
                )
            case _ if reason == "disk":
                raise Unavailable("The disk of the server is full.")
        log.error("a session of git failed", reason=reason)
        raise Unavailable("git cannot be served: its process failed.")


def _describe_end(status: int) -> str:
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"It needed more than {GIT_CPU_SECONDS} s of processor time, or too much memory."
    return "git cannot be served: its process failed."


def _read_state(kind: bytes, body: bytes) -> dict[str, Any]:
    """Return what a frame says, which may be megabytes.

    Raises:
        Unavailable: if the process failed.
    """
    try:
        state = json.loads(body) if kind == STATE else None
    except ValueError:
        state = None
    if not isinstance(state, dict) or not isinstance(state.get("state"), str):
        raise Unavailable("git cannot be served: its process failed.")
    return state


@contextlib.asynccontextmanager
async def _task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks together; raise the first error as it is, not in a group."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


@contextlib.asynccontextmanager
async def _limit_time() -> AsyncIterator[None]:
    """End what takes longer than a session may.

    Raises:
        TimedOut: then.
    """
    try:
        async with asyncio.timeout(GIT_TIMEOUT_SECONDS):
            yield
    except TimeoutError:
        raise TimedOut(f"It timed out after {GIT_TIMEOUT_SECONDS:,.0f} s.") from None
