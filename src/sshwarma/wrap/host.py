"""Runs Lua for the server, in worker processes: never a script's loop, crash or memory in ours.

    host = await LuaHost.start(Limits())
    value = await host.run([Script("wrap.lua", source)], "wrap", snapshot, call=call)
    await host.close()

The first script is run, then the function `entry` that it made: a global, or one it returned, alone
or in a table. That function gets the snapshot as tables (lists from 1, `null` for None in a list,
no key for None in a dict), and what it returns comes back as data. Scripts reach each other by
`import(name)`, the server by `host.call(name, arguments)`; `print` goes to the run's log.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import structlog

from sshwarma.world.errors import Refused
from sshwarma.wrap import protocol
from sshwarma.wrap.errors import (
    LuaBusy,
    LuaCrashed,
    LuaError,
    LuaFailed,
    LuaInput,
    LuaMemory,
    LuaOutput,
    LuaTimeout,
)
from sshwarma.wrap.process import WorkerProcess, memory_words, timeout_words
from sshwarma.wrap.protocol import MIB, Limits, Script

__all__ = [
    "Call",
    "Limits",
    "LuaBusy",
    "LuaCrashed",
    "LuaError",
    "LuaFailed",
    "LuaHost",
    "LuaInput",
    "LuaMemory",
    "LuaOutput",
    "LuaTimeout",
    "Script",
]

log = structlog.get_logger(__name__)

Call: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]


class LuaHost:
    """A pool of workers with one spare ready. Made by `start`, ended by `close`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._starting: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(limits.workers)
        self._waiting = 0
        self._closed = False

    @classmethod
    async def start(cls, limits: Limits | None = None) -> LuaHost:
        """A host with a worker ready.

        Raises:
            LuaCrashed: no worker can start.
        """
        host = cls(limits or Limits())
        await host._spare()
        return host

    async def run(
        self,
        scripts: Sequence[Script],
        entry: str,
        snapshot: Mapping[str, Any],
        *,
        call: Call | None = None,
        log: Callable[[str], None] | None = None,
    ) -> Any:
        """Run the first of `scripts`, call its function `entry`, and give what that returns.

        `call` answers host.call: the words of a Refused become the script's error, any other
        exception is logged and the script hears only that it failed. `log` is given each line
        printed, at the end; a run that had to be killed has none.

        Raises:
            LuaFailed: the script's own error, with its name and line.
            LuaTimeout: over `limits.seconds` of running, or `total_seconds` with waiting.
            LuaMemory, LuaOutput: over `limits.memory`, `limits.output`.
            LuaCrashed: its process ended, or the host is closed.
            LuaInput: scripts or snapshot are not data, or over `limits.snapshot`.
            LuaBusy: over `limits.waiting` runs wait already.
        """
        if not scripts:
            raise LuaInput("There is no script to run.")
        body = self._data({"scripts": scripts, "entry": entry, "snapshot": snapshot})
        if self._waiting >= self.limits.waiting:
            raise LuaBusy(f"{self._waiting} scripts wait to run already: try again soon.")
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            worker = await self._take()
            healthy = False
            try:
                kind, said = await self._converse(worker, body, call)
                healthy = kind == protocol.VALUE or said.get("kind") in ("failed", "output")
            finally:
                self._give_back(worker, healthy)
        finally:
            self._turns.release()
        return self._outcome(kind, said, log)

    async def close(self) -> None:
        """Kill every worker and wait until all are gone. Runs under way raise LuaCrashed."""
        self._closed = True
        if self._starting is not None:
            await asyncio.wait({self._starting})
        for worker in (*self._idle, *self._busy):
            self._end(worker)
        self._idle.clear()
        while self._ending:
            await asyncio.wait(self._ending)

    # the conversation

    async def _converse(
        self, worker: WorkerProcess, body: bytes, call: Call | None
    ) -> tuple[bytes, dict[str, Any]]:
        """From the first frame to the last: VALUE or ERROR, and what it says."""
        kind, calls = protocol.RUN, 0
        running, ends = self.limits.seconds, time.monotonic() + self.limits.total_seconds
        while True:
            began = time.monotonic()
            kind, body = await self._timed(worker, kind, body, min(running, ends - began))
            running -= time.monotonic() - began
            said = _understood(kind, body)
            if kind != protocol.CALL:
                return kind, said
            calls += 1
            if calls > self.limits.calls:
                raise LuaCrashed("The script's process called more often than it can.")
            name, arguments = said
            kind, body = protocol.ANSWER, await self._answer(call, name, arguments, ends)

    async def _timed(
        self, worker: WorkerProcess, kind: bytes, body: bytes, seconds: float
    ) -> tuple[bytes, bytes]:
        exchange = asyncio.ensure_future(worker.exchange(kind, body))
        try:
            # Not asyncio.timeout: an answer that came while the server was busy is in time.
            done, _ = await asyncio.wait({exchange}, timeout=max(seconds, 0))
        except asyncio.CancelledError:
            if exchange.done() and not exchange.cancelled():
                exchange.exception()  # how it went is nobody's concern any more
            raise
        finally:
            if not exchange.done():
                exchange.cancel()
        if not done:
            raise LuaTimeout(timeout_words(self.limits))
        return exchange.result()

    async def _answer(
        self, call: Call | None, name: str, arguments: dict[str, Any], ends: float
    ) -> bytes:
        if call is None:
            return _refusal("host.call: there is nothing to call here.")
        try:
            async with asyncio.timeout(max(ends - time.monotonic(), 0)) as limit:
                value = await call(name, arguments)
            return self._data({"ok": True, "value": value})
        except Refused as refused:
            return _refusal(str(refused))
        except LuaInput as error:
            return _refusal(f"{name}: its answer cannot be given to a script. {error}")
        except Exception as error:
            if limit.expired():
                raise LuaTimeout(
                    f"The script waited for longer than {self.limits.total_seconds:g} s in all, "
                    f"the last time for {name[:60]}."
                ) from error
            log.exception("a call from lua failed", call=name[:60])
            return _refusal(f"{name[:60]}: something went wrong in it.")

    def _outcome(self, kind: bytes, said: dict[str, Any], log: Callable[[str], None] | None) -> Any:
        if log is not None:
            for line in said.get("log", ()):
                log(line)
        if kind == protocol.VALUE:
            return said["value"]
        place: dict[str, Any] = {"script": said.get("script", ""), "line": said.get("line", 0)}
        match said.get("kind"):
            case "timeout":
                raise LuaTimeout(timeout_words(self.limits), **place)
            case "memory":
                raise LuaMemory(memory_words(self.limits), **place)
            case "output":
                raise LuaOutput(f"The script gave back more than {self.limits.output} bytes.")
            case _:
                raise LuaFailed(said.get("message", ""), **place)

    def _data(self, value: object) -> bytes:
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise LuaInput(f"This is not data: {error}.") from error
        body = text.encode("utf-8", "replace")
        if len(body) > self.limits.snapshot:
            raise LuaInput(
                f"This is {len(body) / MIB:.1f} MiB; "
                f"a script may be given {self.limits.snapshot / MIB:.1f} MiB."
            )
        return body

    # the pool

    async def _take(self) -> WorkerProcess:
        while not self._closed:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    self._busy.add(worker)
                    if not self._idle:
                        self._spare()
                    return worker
                self._end(worker)
            await asyncio.shield(self._spare())
        raise LuaCrashed("The Lua host is closed.")

    def _give_back(self, worker: WorkerProcess, healthy: bool) -> None:
        self._busy.discard(worker)
        worker.runs += 1
        if self._closed:
            return  # close() ends it
        if healthy and worker.runs < self.limits.runs:
            self._idle.append(worker)
            return
        self._end(worker)
        if not self._idle:
            self._spare()

    def _spare(self) -> asyncio.Task[None]:
        """The one start under way, or a new one."""
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start_one())
            self._starting.add_done_callback(_noticed)
        return self._starting

    async def _start_one(self) -> None:
        if not self._closed:
            self._idle.append(await WorkerProcess.start(self.limits))

    def _end(self, worker: WorkerProcess) -> None:
        worker.kill()
        ending = asyncio.create_task(worker.end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


def _noticed(starting: asyncio.Task[None]) -> None:
    if not starting.cancelled() and (error := starting.exception()) is not None:
        log.error("no lua worker could be started", error=str(error))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} in it")


def _refusal(words: str) -> bytes:
    return json.dumps({"ok": False, "value": words}).encode()


def _understood(kind: bytes, body: bytes) -> Any:
    """A frame's JSON, looked at: the worker is not to be trusted.

    Raises:
        LuaCrashed: it is not what a worker says.
    """
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    match kind, said:
        case protocol.CALL, [str(), dict()]:
            return said
        case protocol.VALUE, {"value": _, "log": [*lines]} if _texts(lines):
            return said
        case protocol.ERROR, {"kind": "memory"}:
            return {"kind": "memory"}
        case protocol.ERROR, {
            "kind": str(),
            "message": str(),
            "script": str(),
            "line": int(),
            "log": [*lines],
        } if _texts(lines):
            return said
    raise LuaCrashed("The script's process said what no worker says.")


def _texts(lines: list[Any]) -> bool:
    return all(isinstance(line, str) for line in lines)
