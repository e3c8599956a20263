"""Limits for Lua hosts in tests, and `runs_on`, which runs a script's body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sshwarma.wrap.host import LuaHost, LuaLimits, LuaScript

SHORT = LuaLimits(
    run_seconds=0.4,
    total_seconds=2.0,
    max_memory_bytes=96 << 20,
    max_output_bytes=100_000,
    max_log_bytes=1_000,
    max_input_bytes=4 << 20,
    max_calls=20,
    max_concurrent_runs=2,
    max_waiting_runs=3,
)

PATIENT = SHORT._replace(run_seconds=20.0, total_seconds=30.0, interrupt_fraction=0.1)

UNHURRIED = SHORT._replace(run_seconds=20.0, total_seconds=30.0)

Run = Callable[..., Awaitable[Any]]


def runs_on(host: LuaHost) -> Run:
    async def run(body: str, snapshot: Any = None, *scripts: LuaScript, **given: Any) -> Any:
        script = LuaScript("main", f"function main(s) {body}\nend")
        return await host.run([script, *scripts], "main", snapshot or {}, **given)

    return run
