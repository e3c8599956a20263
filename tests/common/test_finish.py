"""Work that reaches its end, though its task is cancelled."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sshwarma.common.finish import check_stop, finish, run_in_thread


async def wait_for(event: threading.Event, work: asyncio.Task[None]) -> None:
    """Wait until a thread has set an event."""
    while not event.is_set():
        assert not work.done()
        await asyncio.sleep(0.001)


async def test_cancelled_work_in_a_thread_has_ended() -> None:
    begun, told, may_end, ended = (threading.Event() for _ in range(4))

    def work(stop: threading.Event) -> None:
        begun.set()
        if stop.wait(30):
            told.set()
        may_end.wait(30)
        ended.set()
        check_stop(stop)

    task = asyncio.create_task(run_in_thread(work))
    await wait_for(begun, task)
    task.cancel()
    await wait_for(told, task)
    assert not task.done()
    task.cancel()  # again
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_work_that_waits_for_a_thread_is_not_begun_when_cancelled() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work(stop: threading.Event) -> None:
        begun.set()

    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        threads.submit(may_end.wait, 30)
        try:
            task = asyncio.create_task(run_in_thread(work))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        finally:
            may_end.set()
        await asyncio.to_thread(int)  # a turn of the only thread: that of the work has come
    assert not begun.is_set()


async def test_error_of_work_in_a_thread_is_raised() -> None:
    def work(stop: threading.Event) -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        await run_in_thread(work)


@pytest.mark.parametrize("fails", [False, True])
async def test_cancelled_work_is_finished_and_then_the_task_is_cancelled(fails: bool) -> None:
    may_end, ended = asyncio.Event(), False

    async def work() -> str:
        nonlocal ended
        await may_end.wait()
        ended = True
        if fails:
            raise ValueError("of the work")
        return "done"

    task = asyncio.create_task(finish(work()))
    for _ in range(2):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    assert ended and isinstance(raised.value.__cause__, ValueError) is fails


async def test_work_that_nobody_stops_returns_or_raises() -> None:
    async def give(value: int) -> int:
        return 12 // value

    assert await finish(give(3)) == 4
    with pytest.raises(ZeroDivisionError):
        await finish(give(0))


async def test_work_that_cancels_itself_is_cancelled() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await finish(give_up())
