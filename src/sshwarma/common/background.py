"""Background tasks: run beside their caller, log failures, end in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

import structlog

log = structlog.get_logger(__name__)
T = TypeVar("T")

FAILED: Final = "background task failed"

RESTART_SECONDS: Final = 5.0
"""Seconds until a watcher that failed runs again."""


class BackgroundTasks:
    """The tasks that one owner has started and must end.

    A task is referenced here until it is done, because the event loop itself keeps only weak
    references. An exception that no caller awaits is logged.
    """

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(
        self, work: Coroutine[Any, Any, T], *, name: str | None = None, failed: str = FAILED
    ) -> asyncio.Task[T]:
        """Run `work` in a task of its own.

        Args:
            work: the coroutine to run.
            name: the task's name in the log (default: that of its function).
            failed: the log event if it raises.
        """
        task = asyncio.get_running_loop().create_task(
            work, name=name or getattr(work, "__qualname__", None)
        )
        self._tasks.add(task)

        def on_done(done: asyncio.Task[T]) -> None:
            self._tasks.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                log.error(failed, error=repr(error), task=done.get_name())

        task.add_done_callback(on_done)
        return task

    def keep_running(
        self, watch: Callable[[], Coroutine[Any, Any, None]], *, name: str
    ) -> asyncio.Task[None]:
        """Run a watcher until it is cancelled; one that fails is logged, and runs again."""

        async def run() -> None:
            while True:
                try:
                    await watch()
                except Exception as error:  # noqa: BLE001 - no error may end a watcher for good
                    log.error(FAILED, error=repr(error), task=name)
                await asyncio.sleep(RESTART_SECONDS)

        return self.spawn(run(), name=name)

    async def join(self) -> None:
        """Wait until no task runs, including those that are started meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)
            await asyncio.sleep(0)  # the done callbacks run

    async def wait(self, seconds: float, others: Iterable[asyncio.Task[Any]] = ()) -> None:
        """Wait for the tasks that run now, and for `others`, at most `seconds`."""
        if tasks := {*self._tasks, *others}:
            await asyncio.wait(tasks, timeout=seconds)

    async def cancel(self) -> None:
        """Cancel every task and wait until all have ended."""
        for task in self._tasks:
            task.cancel()
        await self.join()


def ignore_outcome(task: asyncio.Future[Any]) -> None:
    """Done callback of a task that nobody awaits: no exception is reported as lost."""
    if not task.cancelled():
        task.exception()
