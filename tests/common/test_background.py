"""Background tasks: failures are logged, nothing outlives its owner."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from sshwarma.common import background
from sshwarma.common.background import BackgroundTasks, ignore_outcome


async def fail() -> None:
    raise ValueError("broken pipe in the basement")


async def test_failure_is_logged_once_with_its_event(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tasks = BackgroundTasks()
    tasks.spawn(fail())
    tasks.spawn(fail(), failed="no worker")
    await tasks.join()
    out = capsys.readouterr().out
    assert out.count("background task failed") == 1
    assert out.count("no worker") == 1
    assert out.count("broken pipe in the basement") == 2
    assert len(tasks) == 0


async def test_spawn_returns_the_result_to_an_awaiting_caller() -> None:
    async def answer() -> int:
        return 42

    assert await BackgroundTasks().spawn(answer()) == 42


async def test_join_waits_for_nested_tasks() -> None:
    tasks, done = BackgroundTasks(), []

    async def work(depth: int) -> None:
        await asyncio.sleep(0)
        if depth:
            tasks.spawn(work(depth - 1))
        done.append(depth)

    tasks.spawn(work(3))
    await tasks.join()
    assert done == [3, 2, 1, 0]


async def test_cancel_waits_for_the_cleanup_of_every_task() -> None:
    tasks, ended = BackgroundTasks(), []

    async def work(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    for name in "abc":
        tasks.spawn(work(name))
    await asyncio.sleep(0)
    await tasks.cancel()
    assert sorted(ended) == ["a", "b", "c"]
    assert len(tasks) == 0


async def test_wait_times_out_without_cancelling() -> None:
    tasks, go = BackgroundTasks(), asyncio.Event()
    mine = tasks.spawn(go.wait())
    other = asyncio.ensure_future(go.wait())
    await tasks.wait(0.01, [other])
    assert not mine.done() and not other.done()
    go.set()
    await tasks.wait(5, [other])
    assert mine.done() and other.done()


async def test_ignore_outcome_silences_the_exception_handler() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    task = asyncio.ensure_future(fail())
    task.add_done_callback(ignore_outcome)
    await asyncio.wait({task})
    await asyncio.sleep(0)
    del task
    gc.collect()
    assert reported == []


async def test_watcher_that_fails_runs_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(background, "RESTART_SECONDS", 0.0)
    runs, third = [0], asyncio.Event()

    async def watch() -> None:
        runs[0] += 1
        if runs[0] < 3:
            raise OSError(24, "Too many open files")
        third.set()
        await asyncio.Event().wait()

    tasks = BackgroundTasks()
    tasks.keep_running(watch, name="a watcher")
    await asyncio.wait_for(third.wait(), 30)
    await tasks.cancel()
    assert capsys.readouterr().out.count("background task failed") == 2
