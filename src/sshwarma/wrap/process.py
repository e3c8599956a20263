"""One worker process, as the server controls it: start, exchange of frames, kill."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import Process
from typing import Final

import structlog

from sshwarma.common.processes import (
    SOURCE_FOLDER,
    end_process,
    find_library_folder,
    kill_process,
    program_of,
    start_isolated,
)
from sshwarma.common.units import MIB
from sshwarma.wrap import protocol
from sshwarma.wrap.errors import (
    LuaError,
    LuaOutOfMemory,
    LuaOutputTooLarge,
    LuaTimeout,
    LuaWorkerError,
)
from sshwarma.wrap.protocol import LuaLimits

log = structlog.get_logger(__name__)

START_TIMEOUT_SECONDS: Final = 10.0
END_TIMEOUT_SECONDS: Final = 5.0
MAX_STDERR_BYTES: Final = 4_096
"""Bytes kept of a worker's stderr: the last ones."""

_PROGRAM: Final = program_of("sshwarma.wrap.worker")


class WorkerProcess:
    """A worker process. Created by `start`. One run at a time."""

    def __init__(self, process: Process, limits: LuaLimits) -> None:
        assert process.stdin and process.stdout and process.stderr  # noqa: S101 - for mypy
        self._process = process
        self._limits = limits
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._stderr_tail = bytearray()
        self._stderr_task = asyncio.create_task(self._read_stderr(process.stderr))
        self.run_count = 0

    @classmethod
    async def start(cls, limits: LuaLimits) -> WorkerProcess:
        """Start a process that is ready for a run.

        Raises:
            LuaWorkerError: if it cannot start, or was not ready in 10 s.
        """
        try:
            process = await start_isolated(
                "-S", "-c", _PROGRAM, SOURCE_FOLDER, find_library_folder("lupa")
            )
        except OSError as error:
            raise LuaWorkerError(f"The Lua worker cannot start: {error.strerror}.") from error
        worker = cls(process, limits)
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                kind, _ = await worker.exchange_frames(
                    protocol.SETUP, json.dumps(limits._asdict()).encode()
                )
            if kind != protocol.READY:
                raise LuaWorkerError("The Lua worker did not report that it is ready.")
        except TimeoutError:
            await worker.wait_closed()
            raise LuaWorkerError(
                f"The Lua worker was not ready in {START_TIMEOUT_SECONDS:.0f} s."
            ) from None
        except BaseException:
            await worker.wait_closed()
            raise
        return worker

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs and can answer."""
        return self._process.returncode is None and not self._stdout.at_eof()

    async def exchange_frames(self, kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        """Send a frame and return the answer: its kind and body.

        Raises:
            LuaOutputTooLarge: if the answer exceeds the frame limit.
            LuaOutOfMemory, LuaTimeout, LuaWorkerError: if the process ended instead of answering.
        """
        try:
            self._stdin.write(protocol.encode_frame(kind, body))
            await self._stdin.drain()
            head = await self._stdout.readexactly(protocol.HEADER_BYTES)
            size = int.from_bytes(head[: protocol.LENGTH_BYTES], "big") - 1
            if not 0 <= size <= self._limits.max_answer_bytes:
                raise LuaOutputTooLarge("The script's result is too large.")
            return head[protocol.LENGTH_BYTES :], await self._stdout.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._explain_exit() from None

    def kill(self) -> None:
        """Kill the process at once. `wait_closed` waits for it."""
        kill_process(self._process)

    async def wait_closed(self) -> None:
        """Kill the process and wait until it has ended."""
        await end_process(self._process, self._stdout)
        await self._stderr_task

    async def _explain_exit(self) -> LuaError:
        """Return the reason of the exit, from the exit status and the end of stderr."""
        try:
            async with asyncio.timeout(END_TIMEOUT_SECONDS):
                await asyncio.shield(self._stderr_task)
                status = await self._process.wait()
        except TimeoutError:
            self.kill()
            return LuaWorkerError("The Lua worker closed its stream.")
        stderr = self._stderr_tail.decode("utf-8", "replace").strip()
        if status == protocol.OUT_OF_MEMORY_STATUS or "not enough memory" in stderr:
            return LuaOutOfMemory(memory_error_text(self._limits))
        if status == -signal.SIGXCPU:
            return LuaTimeout(timeout_error_text(self._limits))
        log.warning("a lua worker ended", status=status, stderr=stderr)
        reason = signal.Signals(-status).name if status < 0 else f"status {status}"
        return LuaWorkerError(f"The process that ran the script ended ({reason}).")

    async def _read_stderr(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(MAX_STDERR_BYTES):
            self._stderr_tail += chunk
            del self._stderr_tail[:-MAX_STDERR_BYTES]


def memory_error_text(limits: LuaLimits) -> str:
    """Return the message for a script that exceeded its memory limit."""
    return f"The script exceeded its memory limit of {limits.max_memory_bytes // MIB} MiB."


def timeout_error_text(limits: LuaLimits) -> str:
    """Return the message for a script that ran for too long."""
    return f"The script timed out after {limits.run_seconds:g} s."
