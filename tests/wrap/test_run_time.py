"""A script has its time of the processor, however many others want it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from sshwarma.wrap import run_time as module
from sshwarma.wrap.errors import LuaTimeout
from sshwarma.wrap.host import LuaHost
from sshwarma.wrap.protocol import LuaLimits
from sshwarma.wrap.run_time import MAX_STRETCH, RunTime
from support.lua import SHORT, runs_on

LIMITS = LuaLimits(run_seconds=1.0, total_seconds=60.0)


@pytest.mark.process
@pytest.mark.parametrize("share", [1.5, 1.5 * MAX_STRETCH])
async def test_time_in_which_a_process_does_not_run_is_not_the_scripts(share: float) -> None:
    host = await LuaHost.start(SHORT)
    (worker,) = host._idle
    loop = asyncio.get_running_loop()

    async def call(name: str, arguments: dict[str, Any]) -> None:
        os.kill(worker.pid, signal.SIGSTOP)
        loop.call_later(share * SHORT.run_seconds, os.kill, worker.pid, signal.SIGCONT)

    running = runs_on(host)("host.call('x') return 1", call=call)
    if share < MAX_STRETCH:
        assert await running == 1
    else:  # then the server does not wait any more
        with pytest.raises(LuaTimeout):
            await running
    await host.close()


@pytest.mark.parametrize(
    ("used", "waited", "left"),
    [
        (0.0, 0.0, 1.0),
        (0.9, 0.9, 0.1),
        (0.3, 1.0, 0.7),
        (0.3, 5.0, 0.7),
        (1.0, 1.1, 0.0),
        (0.99, 1.1, 0.0),  # too little to measure
        (0.3, MAX_STRETCH, 0.0),
        (None, 0.9, 0.1),
        (None, 1.0, 0.0),
    ],
)
def test_time_left_is_that_of_the_processor(
    monkeypatch: pytest.MonkeyPatch, used: float | None, waited: float, left: float
) -> None:
    spent: list[float | None] = [None if used is None else 5.0]
    monkeypatch.setattr(module, "_read_processor_seconds", lambda pid: spent[-1])
    run = RunTime(1, LIMITS, lambda: 100.0)
    run.add(waited)
    spent.append(None if used is None else 5.0 + used)
    assert run.compute_left() == pytest.approx(left)


def test_time_in_all_ends_a_run_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    run = RunTime(os.getpid(), LIMITS, lambda: now[-1])
    assert run.ends_at == 160.0
    now.append(159.5)
    assert run.compute_left() == pytest.approx(0.5)
    now.append(161.0)
    assert run.compute_left() < 0


def test_processor_time_of_a_process_is_read() -> None:
    assert module._read_processor_seconds(os.getpid())
    assert module._read_processor_seconds(2**30) is None
