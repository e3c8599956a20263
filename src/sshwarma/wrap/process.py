"""One worker process as the server holds it: started, spoken to frame by frame, killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import asdict
from pathlib import Path
from typing import Final

import structlog

from sshwarma.wrap import protocol
from sshwarma.wrap.errors import LuaCrashed, LuaError, LuaMemory, LuaOutput, LuaTimeout
from sshwarma.wrap.protocol import Limits

log = structlog.get_logger(__name__)

START_SECONDS: Final = 10.0
END_SECONDS: Final = 5.0
STDERR: Final = 4_096
"""Bytes kept of what a worker says on stderr: the last ones."""

ROOT: Final = str(Path(__file__).parents[2])
# `python -m sshwarma.wrap.worker` with nothing in the environment, of the package we are ourselves.
BOOT: Final = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop()); "
    "runpy.run_module('sshwarma.wrap.worker', run_name='__main__', alter_sys=True)"
)


class WorkerProcess:
    """Made by `start`. Not for two runs at once."""

    def __init__(self, process: Process, limits: Limits) -> None:
        assert process.stdin and process.stdout and process.stderr  # noqa: S101 - for mypy
        self._process = process
        self._limits = limits
        self._in = process.stdin
        self._out = process.stdout
        self._said = bytearray()
        self._listening = asyncio.create_task(self._listen(process.stderr))
        self.runs = 0

    @classmethod
    async def start(cls, limits: Limits) -> WorkerProcess:
        """A process that is ready for a run.

        Raises:
            LuaCrashed: it cannot start, or was not ready in 10 s.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-c", BOOT, ROOT),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={},
                cwd="/",
                close_fds=True,
                start_new_session=True,
            )
        except OSError as error:
            raise LuaCrashed(f"The Lua worker cannot start: {error.strerror}.") from error
        worker = cls(process, limits)
        try:
            async with asyncio.timeout(START_SECONDS):
                kind, _ = await worker.exchange(protocol.SETUP, json.dumps(asdict(limits)).encode())
            if kind != protocol.READY:
                raise LuaCrashed("The Lua worker did not say that it is ready.")
        except TimeoutError:
            await worker.end()
            raise LuaCrashed(f"The Lua worker was not ready in {START_SECONDS:.0f} s.") from None
        except BaseException:
            await worker.end()
            raise
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None and not self._out.at_eof()

    async def exchange(self, kind: bytes, body: bytes) -> tuple[bytes, bytes]:
        """Say something and hear the answer: its kind and body.

        Raises:
            LuaOutput: the answer is longer than any may be.
            LuaMemory, LuaTimeout, LuaCrashed: the process ended instead of answering.
        """
        try:
            self._in.write(protocol.frame(kind, body))
            await self._in.drain()
            head = await self._out.readexactly(protocol.HEADER)
            size = int.from_bytes(head[: protocol.LENGTH], "big") - 1
            if not 0 <= size <= self._limits.answer_frame:
                raise LuaOutput("The script gave back more than it may.")
            return head[protocol.LENGTH :], await self._out.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._post_mortem() from None

    def kill(self) -> None:
        """At once, whatever it does. `end` waits for it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> None:
        """Kill it and wait until it is gone."""
        self.kill()
        await self._process.wait()
        await self._listening

    async def _post_mortem(self) -> LuaError:
        """Why it ended, from its exit status and its last words."""
        try:
            async with asyncio.timeout(END_SECONDS):
                await asyncio.shield(self._listening)
                status = await self._process.wait()
        except TimeoutError:
            self.kill()
            return LuaCrashed("The Lua worker closed its stream.")
        words = self._said.decode("utf-8", "replace").strip()
        if status == protocol.OUT_OF_MEMORY or "not enough memory" in words:
            return LuaMemory(memory_words(self._limits))
        if status == -signal.SIGXCPU:
            return LuaTimeout(timeout_words(self._limits))
        log.warning("a lua worker ended", status=status, stderr=words)
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        return LuaCrashed(f"The process that ran the script ended ({how}).")

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        while part := await stream.read(STDERR):
            self._said += part
            del self._said[:-STDERR]


def memory_words(limits: Limits) -> str:
    return f"The script needed more memory than it may have ({limits.memory // protocol.MIB} MiB)."


def timeout_words(limits: Limits) -> str:
    return f"The script ran for longer than {limits.seconds:g} s and was stopped."
