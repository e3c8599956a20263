"""Runs Lua for the server, in worker processes.

A script's loop, crash or memory never affects the server's process.

    host = await LuaHost.start(LuaLimits())
    value = await host.run([LuaScript("wrap.lua", source)], "wrap", snapshot, call=call)
    await host.close()

The first script is run, then the function `entry` that it defines: a global, or one it returned,
alone or in a table. That function gets the snapshot as tables (lists from 1, `null` for None in a
list, no key for None in a dict), and its result is converted back to data. Scripts import each
other with `import(name)` and call the server with `host.call(name, arguments)`; `print` goes to the
run's log.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import structlog

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.json_guard import JsonTooLarge, check_json_size
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.common.shorten import shorten_name
from sshwarma.common.units import MIB
from sshwarma.world.errors import WorldError
from sshwarma.world.reader import TOOL_CALLER
from sshwarma.wrap import protocol
from sshwarma.wrap.errors import (
    LuaError,
    LuaInvalidInput,
    LuaOutOfMemory,
    LuaOutputTooLarge,
    LuaQueueFull,
    LuaScriptError,
    LuaTimeout,
    LuaWorkerError,
)
from sshwarma.wrap.process import WorkerProcess, memory_error_text, timeout_error_text
from sshwarma.wrap.protocol import LuaLimits, LuaScript
from sshwarma.wrap.run_time import RunTime

__all__ = [
    "HostCallback",
    "LuaError",
    "LuaHost",
    "LuaInvalidInput",
    "LuaLimits",
    "LuaOutOfMemory",
    "LuaOutputTooLarge",
    "LuaQueueFull",
    "LuaScript",
    "LuaScriptError",
    "LuaTimeout",
    "LuaWorkerError",
]

log = structlog.get_logger(__name__)

HostCallback: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[Any]]


class LuaHost:
    """A pool of workers with one spare ready. Created by `start`, ended by `close`."""

    def __init__(self, limits: LuaLimits) -> None:
        self.limits = limits
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._start_task: asyncio.Task[None] | None = None
        self._end_tasks = BackgroundTasks()
        self._starts = BackgroundTasks()
        self._run_slots = asyncio.Semaphore(limits.max_concurrent_runs)
        self._waiting = 0
        self._closed = False

    @classmethod
    async def start(cls, limits: LuaLimits | None = None) -> LuaHost:
        """Start a host with a ready worker.

        Raises:
            LuaWorkerError: if no worker can start.
        """
        host = cls(limits or LuaLimits())
        await host._start_spare()
        return host

    async def run(
        self,
        scripts: Sequence[LuaScript],
        entry: str,
        snapshot: Mapping[str, Any],
        *,
        call: HostCallback | None = None,
        log: Callable[[str], None] | None = None,
    ) -> Any:
        """Run the first of `scripts`, call its function `entry`, and return its result.

        `call` answers host.call: the message of a WorldError becomes the script's error; any other
        exception is logged, and the script only sees that the call failed. `log` gets each printed
        line, at the end; a killed run has none.

        Raises:
            LuaScriptError: the script's own error, with its name and line.
            LuaTimeout: over `run_seconds` of running, or `total_seconds` with waiting.
            LuaOutOfMemory: over `max_memory_bytes`.
            LuaOutputTooLarge: over `max_output_bytes`.
            LuaWorkerError: its process ended, or the host is closed.
            LuaInvalidInput: scripts or snapshot are not data, or over `max_input_bytes`.
            LuaQueueFull: `max_waiting_runs` runs are already waiting.
        """
        if not scripts:
            raise LuaInvalidInput("The script to run is missing.")
        body = self._encode_data({"scripts": scripts, "entry": entry, "snapshot": snapshot})
        if self._waiting >= self.limits.max_waiting_runs:
            raise LuaQueueFull(f"{self._waiting} scripts are waiting to run. Retry in a moment.")
        self._waiting += 1
        try:
            await self._run_slots.acquire()
        finally:
            self._waiting -= 1
        try:
            worker = await self._take_worker()
            healthy = False
            try:
                kind, payload = await self._exchange_until_done(worker, body, call)
                healthy = kind == protocol.VALUE or payload.get("kind") in ("failed", "output")
            finally:
                self._return_worker(worker, healthy)
        finally:
            self._run_slots.release()
        return self._read_outcome(kind, payload, log)

    @property
    def worker_count(self) -> int:
        """Number of workers that are alive."""
        return sum(worker.is_alive for worker in (*self._idle, *self._busy))

    async def close(self) -> None:
        """Kill every worker and wait until all have ended.

        Running scripts raise LuaWorkerError.
        """
        self._closed = True
        if self._start_task is not None:
            await asyncio.wait({self._start_task})
        for worker in (*self._idle, *self._busy):
            self._end_worker(worker)
        self._idle.clear()
        await self._end_tasks.join()

    # the conversation

    async def _exchange_until_done(
        self, worker: WorkerProcess, body: bytes, call: HostCallback | None
    ) -> tuple[bytes, dict[str, Any]]:
        """Exchange frames until the last one, VALUE or ERROR, and return its content."""
        kind, calls = protocol.RUN, 0
        run_time = RunTime(worker.pid, self.limits, time.monotonic)
        while True:
            kind, body = await self._exchange_with_timeout(worker, kind, body, run_time)
            payload = _parse_frame(kind, body)
            if kind != protocol.CALL:
                return kind, payload
            calls += 1
            if calls > self.limits.max_calls:
                raise LuaWorkerError("The script's process exceeded the limit of calls.")
            name, arguments = payload
            kind, body = (
                protocol.ANSWER,
                await self._answer_call(call, name, arguments, run_time.ends_at),
            )

    async def _exchange_with_timeout(
        self, worker: WorkerProcess, kind: bytes, body: bytes, run_time: RunTime
    ) -> tuple[bytes, bytes]:
        exchange = asyncio.ensure_future(worker.exchange_frames(kind, body))
        try:
            done: AbstractSet[object] = frozenset()
            left = run_time.compute_left()
            while not done and left > 0:
                start = time.monotonic()
                # Not asyncio.timeout: an answer that came while the server was busy is in time.
                done, _ = await asyncio.wait({exchange}, timeout=left)
                run_time.add(time.monotonic() - start)
                left = run_time.compute_left()
        except asyncio.CancelledError:
            if exchange.done() and not exchange.cancelled():
                exchange.exception()  # nobody waits for its result any more
            raise
        finally:
            if not exchange.done():
                exchange.cancel()
        if not done:
            raise LuaTimeout(timeout_error_text(self.limits))
        return exchange.result()

    async def _answer_call(
        self, call: HostCallback | None, name: str, arguments: dict[str, Any], ends: float
    ) -> bytes:
        if call is None:
            return _encode_error("host.call is not available here.")
        try:
            async with asyncio.timeout(max(ends - time.monotonic(), 0)) as limit:
                value = await call(name, arguments)
            return self._encode_data({"ok": True, "value": value})
        except WorldError as refused:
            return _encode_error(refused.text_for(TOOL_CALLER))
        except LuaInvalidInput as error:
            return _encode_error(f"{name}: its result cannot be passed to a script. {error}")
        except Exception as error:
            if limit.expired():
                raise LuaTimeout(
                    f"The script timed out after {self.limits.total_seconds:g} s with waiting, "
                    f"the last time for {shorten_name(name)}."
                ) from error
            log.exception("a call from lua failed", call=shorten_name(name))
            return _encode_error(f"{shorten_name(name)}: {INTERNAL_ERROR}")

    def _read_outcome(
        self, kind: bytes, payload: dict[str, Any], log: Callable[[str], None] | None
    ) -> Any:
        if log is not None:
            for line in payload.get("log", ()):
                log(line)
        if kind == protocol.VALUE:
            return payload["value"]
        place: dict[str, Any] = {
            "script": payload.get("script", ""),
            "line": payload.get("line", 0),
        }
        match payload.get("kind"):
            case "timeout":
                raise LuaTimeout(timeout_error_text(self.limits), **place)
            case "memory":
                raise LuaOutOfMemory(memory_error_text(self.limits), **place)
            case "output":
                raise LuaOutputTooLarge(
                    f"The script's result exceeds {self.limits.max_output_bytes} bytes."
                )
            case _:
                raise LuaScriptError(payload.get("message", ""), **place)

    def _encode_data(self, value: object) -> bytes:
        try:
            text = json.dumps(
                value, ensure_ascii=False, separators=(",", ":"), default=_to_json_value
            )
        except (TypeError, ValueError, RecursionError) as error:
            raise LuaInvalidInput(f"The input is not data: {error}.") from error
        body = text.encode("utf-8", "replace")
        if len(body) > self.limits.max_input_bytes:
            raise LuaInvalidInput(
                f"The input has {len(body) / MIB:.1f} MiB; "
                f"the limit is {self.limits.max_input_bytes / MIB:.1f} MiB."
            )
        return body

    # the pool

    async def _take_worker(self) -> WorkerProcess:
        while not self._closed:
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive:
                    self._busy.add(worker)
                    if not self._idle:
                        self._start_spare()
                    return worker
                self._end_worker(worker)
            await asyncio.shield(self._start_spare())
        raise LuaWorkerError("The Lua host is closed.")

    def _return_worker(self, worker: WorkerProcess, healthy: bool) -> None:
        self._busy.discard(worker)
        worker.run_count += 1
        if self._closed:
            return  # close() ends it
        if healthy and worker.run_count < self.limits.max_runs_per_worker:
            self._idle.append(worker)
            return
        self._end_worker(worker)
        if not self._idle:
            self._start_spare()

    def _start_spare(self) -> asyncio.Task[None]:
        """Return the running start of a worker, or a new one."""
        if self._start_task is None or self._start_task.done():
            self._start_task = self._starts.spawn(
                self._start_one(), failed="cannot start a lua worker"
            )
        return self._start_task

    async def _start_one(self) -> None:
        if not self._closed:
            self._idle.append(await WorkerProcess.start(self.limits))

    def _end_worker(self, worker: WorkerProcess) -> None:
        worker.kill()
        self._end_tasks.spawn(worker.wait_closed())


def _to_json_value(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} in it")


def _encode_error(message: str) -> bytes:
    return json.dumps({"ok": False, "value": message}).encode()


def _parse_frame(kind: bytes, body: bytes) -> Any:
    """Parse a frame's JSON and check it: the worker is not trusted.

    Raises:
        LuaOutputTooLarge: if it has too many values.
        LuaWorkerError: if it violates the protocol.
    """
    try:
        check_json_size(body)
        payload = json.loads(body)
    except JsonTooLarge as error:
        raise LuaOutputTooLarge(f"The script's data {error}.") from error
    except (ValueError, RecursionError):
        payload = None
    match kind, payload:
        case protocol.CALL, [str(), dict()]:
            return payload
        case protocol.VALUE, {"value": _, "log": [*lines]} if _are_strings(lines):
            return payload
        case protocol.ERROR, {"kind": "memory"}:
            return {"kind": "memory"}
        case protocol.ERROR, {
            "kind": str(),
            "message": str(),
            "script": str(),
            "line": int(),
            "log": [*lines],
        } if _are_strings(lines):
            return payload
    raise LuaWorkerError("The script's process violated the protocol.")


def _are_strings(lines: list[Any]) -> bool:
    return all(isinstance(line, str) for line in lines)
