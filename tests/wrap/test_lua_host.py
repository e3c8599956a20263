"""The host: calls to the server, its processes, and the loss of one of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from sshwarma.world.errors import NotFound
from sshwarma.wrap import host as host_module
from sshwarma.wrap.host import (
    LuaHost,
    LuaLimits,
    LuaOutOfMemory,
    LuaQueueFull,
    LuaScript,
    LuaScriptError,
    LuaTimeout,
    LuaWorkerError,
)
from sshwarma.wrap.process import WorkerProcess
from sshwarma.wrap.run_time import RunTime
from support.lua import SHORT, UNHURRIED, Run, runs_on

LOOP = [LuaScript("main", "function main() while true do end end")]
LOOP_SAYING_SO = [
    LuaScript("main", "function main() host.call('running') while true do end end"),
]
TWO = [LuaScript("main", "function main() return 2 end")]


@pytest_asyncio.fixture(loop_scope="session")
async def own_host() -> AsyncIterator[LuaHost]:
    """A host whose processes a test kills or counts."""
    host = await LuaHost.start(UNHURRIED)
    yield host
    await host.close()


@pytest_asyncio.fixture(loop_scope="session")
async def own_hasty() -> AsyncIterator[LuaHost]:
    """The same with little time."""
    host = await LuaHost.start(SHORT)
    yield host
    await host.close()


async def echo(name: str, arguments: dict[str, Any]) -> Any:
    return [name, arguments]


async def test_host_call_returns_the_result_of_the_server(lua: Run) -> None:
    assert await lua("return host.call('git:log', {n = 1})", call=echo) == ["git:log", {"n": 1}]
    assert await lua("return host.call('x')", call=echo) == ["x", {}]
    assert await lua("return host.call('x', {list = {}, o = object({})})", call=echo) == [
        "x",
        {"list": [], "o": {}},
    ]


async def test_host_call_works_in_coroutines_pcall_and_import(lua: Run) -> None:
    library = LuaScript("lib", "local got = host.call('early') return function() return got end")
    assert await lua(
        """
        local inner = coroutine.wrap(function()
          local co = coroutine.create(function(a)
            local b = coroutine.yield(host.call(a)[1])
            return host.call(b)[1]
          end)
          local _, first = coroutine.resume(co, "one")
          local _, second = coroutine.resume(co, "two")
          coroutine.yield(first .. second)
          error("inner")
        end)
        local text = inner()
        local ok, problem = pcall(inner)
        local fine, three = pcall(host.call, "three")
        return {text, ok, fine, three[1], import("lib")()[1]}""",
        {},
        library,
        call=echo,
    ) == ["onetwo", False, True, "three", "early"]


async def test_refused_host_call_is_a_script_error(lua: Run) -> None:
    async def refuse(name: str, arguments: dict[str, Any]) -> Any:
        raise NotFound(f"Unknown tool {name}.")

    async def break_(name: str, arguments: dict[str, Any]) -> Any:
        raise ValueError("a secret of the server")

    async def nonsense(name: str, arguments: dict[str, Any]) -> Any:
        return object()

    with pytest.raises(LuaScriptError, match=r"^Unknown tool x\.$"):
        await lua("return host.call('x')", call=refuse)
    said = await lua("local ok, e = pcall(host.call, 'x') return e", call=refuse)
    assert said == "Unknown tool x."
    with pytest.raises(LuaScriptError, match=r"^main:2: Unknown tool x\.$"):
        await lua("\nlocal x = host.call('x')", call=refuse)
    with pytest.raises(LuaScriptError, match=r"x: Internal error\. The server's log"):
        await lua("return host.call('x')", call=break_)
    with pytest.raises(LuaScriptError, match="x: its result cannot be passed to a script"):
        await lua("return host.call('x')", call=nonsense)
    with pytest.raises(LuaScriptError, match=r"host\.call is not available here"):
        await lua("return host.call('x')")


@pytest.mark.parametrize(
    "body",
    [
        "table.sort({2, 1}, function() host.call('x') end)",
        "return ('x'):gsub('x', function() return host.call('x') end)",
        "return setmetatable({}, {__index = function() return host.call('x') end}).y and 1",
        "host.call(1)",
        "host.call('x', 1)",
        "host.call('x', {1})",
        "host.call('x', {a = print})",
        "host.call('x', {a = ('y'):rep(200000)})",
        "for i = 1, 100 do host.call('x') end",
    ],
)
async def test_invalid_host_call_is_a_script_error(lua: Run, body: str) -> None:
    if "__index" in body:  # Lua 5.4 can wait in a metamethod of Lua's own
        assert await lua(body, call=echo) == 1
        return
    with pytest.raises(LuaScriptError, match=r"host\.call"):
        await lua(body, call=echo)


@pytest.mark.process
async def test_host_calls_per_run_are_limited() -> None:
    host = await LuaHost.start(SHORT._replace(run_seconds=2.0, total_seconds=60.0))
    lua = runs_on(host)
    heard = 0

    async def count(name: str, arguments: dict[str, Any]) -> Any:
        nonlocal heard
        heard += 1

    with pytest.raises(LuaTimeout):
        await lua("while true do pcall(host.call, 'x', {y = ('y'):rep(1000)}) end", call=count)
    assert heard == SHORT.max_calls
    assert await lua("return 2") == 2
    await host.close()


async def test_waiting_for_a_host_call_is_not_run_time(
    host: LuaHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that the call moves by more than a script may run."""
    lua, moved = runs_on(host), 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + moved)
    monkeypatch.setattr(host_module, "time", clock)

    async def slow(name: str, arguments: dict[str, Any]) -> Any:
        nonlocal moved
        moved += host.limits.run_seconds * 1.25

    assert host.limits.run_seconds * 1.25 < host.limits.total_seconds
    assert await lua("host.call('x') return 1", call=slow) == 1


async def test_total_time_with_waiting_is_limited(hasty: LuaHost) -> None:
    lua = runs_on(hasty)

    async def never(name: str, arguments: dict[str, Any]) -> Any:
        await asyncio.Event().wait()

    with pytest.raises(LuaTimeout, match="timed out after 2 s with waiting"):
        await lua("while true do pcall(host.call, 'x') end", call=never)
    assert await lua("return 2") == 2


async def test_large_call_results_count_against_the_memory_limit(hasty: LuaHost) -> None:
    lua = runs_on(hasty)

    async def large(name: str, arguments: dict[str, Any]) -> Any:
        return ["x" * 1000 + str(n) for n in range(3000)]

    with pytest.raises((LuaOutOfMemory, LuaTimeout)):
        await lua(
            """
            local kept = {}
            pcall(function() while true do kept[#kept + 1] = ("x"):rep(1000) .. #kept end end)
            for i = 1, 20 do kept[#kept + 1] = host.call("x") end
            return #kept""",
            call=large,
        )
    assert await lua("return 2") == 2


@pytest.mark.process
async def test_worker_is_reused_until_its_run_limit() -> None:
    host = await LuaHost.start(UNHURRIED._replace(max_runs_per_worker=3))
    pids = []
    for _ in range(6):
        assert await host.run(TWO, "main", {}) == 2
        pids.append(_workers(host))
    await host.close()
    assert len(set().union(*pids)) >= 2


async def test_killed_worker_is_replaced(own_host: LuaHost) -> None:
    run = await _looping(own_host)
    worker = next(iter(own_host._busy))
    os.kill(worker.pid, signal.SIGSEGV)
    with pytest.raises(LuaWorkerError, match="SIGSEGV"):
        await run
    assert await own_host.run(TWO, "main", {}) == 2


async def test_dead_idle_worker_is_not_used(own_host: LuaHost) -> None:
    assert await own_host.run(TWO, "main", {}) == 2
    for worker in own_host._idle:
        os.kill(worker.pid, signal.SIGKILL)
        await worker._process.wait()
    assert await own_host.run(TWO, "main", {}) == 2


async def test_cancelled_run_kills_its_worker(own_host: LuaHost) -> None:
    run = await _looping(own_host)
    pid = next(iter(own_host._busy)).pid
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await own_host.run(TWO, "main", {}) == 2
    await own_host.close()
    assert not _exists(pid)


async def test_queue_for_workers_is_bounded(own_host: LuaHost, own_hasty: LuaHost) -> None:
    runs = [
        own_host.run(TWO, "main", {})
        for _ in range(SHORT.max_concurrent_runs + SHORT.max_waiting_runs)
    ]
    assert await asyncio.gather(*runs) == [2] * len(runs)
    loops = [asyncio.create_task(own_hasty.run(LOOP, "main", {})) for _ in range(5)]
    await asyncio.sleep(0)
    with pytest.raises(LuaQueueFull):
        await own_hasty.run(TWO, "main", {})
    ended = await asyncio.gather(*loops, return_exceptions=True)
    assert {type(end) for end in ended} == {LuaTimeout}


@pytest.mark.process
async def test_close_leaves_no_process() -> None:
    host = await LuaHost.start(UNHURRIED)
    runs = [await _looping(host) for _ in range(2)]
    pids = _workers(host)
    await host.close()
    ended = await asyncio.gather(*runs, return_exceptions=True)
    assert {type(end) for end in ended} == {LuaWorkerError}
    assert not [pid for pid in pids | _workers(host) if _exists(pid)]
    with pytest.raises(LuaWorkerError, match="closed"):
        await host.run(TWO, "main", {})


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
async def test_worker_inherits_nothing_from_the_server(
    own_host: LuaHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(kept, True)
    monkeypatch.setenv("SSHWARMA_SECRET", "x")
    worker = await WorkerProcess.start(SHORT)
    try:
        here = Path(f"/proc/{worker.pid}")
        assert (here / "environ").read_bytes() == b""
        assert (here / "cwd").readlink() == Path("/")
        assert sorted(path.name for path in (here / "fd").iterdir()) == ["0", "1", "2"]
        status = (here / "status").read_text()
        assert "NoNewPrivs:\t1" in status
        limits = (here / "limits").read_text()
        for line in ("Max file size", "Max core file size", "Max processes"):
            assert any(
                found.split()[-3:-1] == ["0", "0"] for found in limits.splitlines() if line in found
            ), line
        assert await own_host.run(TWO, "main", {}) == 2
    finally:
        os.close(kept)
        await worker.wait_closed()


@pytest.mark.process
async def test_invalid_message_of_a_worker_is_a_worker_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = await LuaHost.start(UNHURRIED)
    for kind, body in ((b"V", b"{"), (b"V", b"[" * 20_000), (b"C", b'["x", 1]'), (b"Z", b"{}")):

        async def lie(
            self: WorkerProcess, *_: bytes, kind: bytes = kind, body: bytes = body
        ) -> tuple[bytes, bytes]:
            return kind, body

        with monkeypatch.context() as patch:
            patch.setattr(WorkerProcess, "exchange_frames", lie)
            if host._idle:
                with pytest.raises(LuaWorkerError):
                    await host.run(TWO, "main", {})
        # A spare worker that was starting meanwhile also got wrong values, and is lost once.
        with contextlib.suppress(LuaWorkerError):
            await host.run(TWO, "main", {})
        assert await host.run(TWO, "main", {}) == 2
    await host.close()


@pytest.mark.process
async def test_default_limits_are_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = LuaLimits()
    assert (limits.run_seconds, limits.total_seconds) == (1.0, 60.0)
    assert (limits.max_memory_bytes, limits.max_output_bytes) == (256 << 20, 1 << 20)
    host = await LuaHost.start()
    exchange, given = host._exchange_with_timeout, list[float]()

    async def keep(worker: Any, kind: bytes, body: bytes, run_time: RunTime) -> tuple[bytes, bytes]:
        given.append(run_time.compute_left())
        return await exchange(worker, kind, body, run_time)

    monkeypatch.setattr(host, "_exchange_with_timeout", keep)
    with pytest.raises(LuaTimeout, match=r"timed out after 1 s\.$"):
        await host.run(LOOP, "main", {})
    assert given == [limits.run_seconds]
    await host.close()


async def _looping(host: LuaHost) -> asyncio.Task[Any]:
    """A run that is in its loop now."""
    running = asyncio.Event()

    async def call(name: str, arguments: dict[str, Any]) -> None:
        running.set()

    run = asyncio.create_task(host.run(LOOP_SAYING_SO, "main", {}, call=call))
    await running.wait()
    return run


def _workers(host: LuaHost) -> set[int]:
    return {worker.pid for worker in (*host._idle, *host._busy)}


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
