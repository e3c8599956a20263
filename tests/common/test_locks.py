"""Locks that announce a wait, once, and say nothing if they are free."""

from __future__ import annotations

import asyncio

import pytest

from sshwarma.common.locks import hold_lock
from support.waiting import until


@pytest.mark.parametrize("slots", [1, 2])
async def test_reason_is_said_once_before_the_wait_and_only_then(slots: int) -> None:
    lock = asyncio.Lock() if slots == 1 else asyncio.Semaphore(slots)
    said: list[str] = []
    inside: list[str] = []

    async def hold(name: str, gate: asyncio.Event) -> None:
        async with hold_lock(lock, said.append, f"{name} waits."):
            inside.append(name)
            await gate.wait()

    first, last = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for number in range(slots):
            tasks.create_task(hold(f"holder{number}", first))
        tasks.create_task(hold("late", last))
        await until(lambda: said)
        assert said == ["late waits."] and inside == [f"holder{n}" for n in range(slots)]
        first.set()
        await until(lambda: "late" in inside)
        last.set()
    assert said == ["late waits."]
    async with hold_lock(lock, said.append, "Nobody holds it."):
        assert said == ["late waits."]


async def test_lock_is_free_after_a_wait_that_was_cancelled() -> None:
    lock = asyncio.Lock()
    said: list[str] = []

    async def wait() -> None:
        async with hold_lock(lock, said.append, "It waits."):
            raise AssertionError

    async with lock:
        waiting = asyncio.create_task(wait())
        await until(lambda: said)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
    assert not lock.locked()
