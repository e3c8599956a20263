"""Comparisons of files at the same time."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sshwarma.verbs import file_versions
from sshwarma.verbs.dispatch import invoke
from sshwarma.workspaces.text_diff import TextDiff
from support.people import Someone, do
from support.waiting import until


class GatedComparisons:
    """Comparisons that end when a gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = 0

    def compare(self, old: bytes, new: bytes) -> TextDiff:
        self.begun += 1
        self.gate.wait(30)
        return TextDiff(f"{old!r} {new!r}")


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> Iterator[GatedComparisons]:
    made = GatedComparisons()
    monkeypatch.setattr(file_versions, "compare_contents", made.compare)
    yield made
    made.gate.set()


async def begin_to_wait(someone: Someone) -> asyncio.Task[Any]:
    """Begin a comparison, and return when it waits for another."""
    said: list[str] = []
    caller = dataclasses.replace(someone.caller, on_progress=said.append)
    task = asyncio.create_task(invoke(caller, "file diff", {"path": "a"}))
    await until(lambda: said)
    assert said == ["Waiting for another search or comparison of yours."]
    return task


async def test_comparisons_of_a_person_wait_for_each_other(
    alice: Someone, bob: Someone, comparisons: GatedComparisons
) -> None:
    await do(bob, "/file put a = one")
    first = asyncio.create_task(do(bob, "/file diff a"))
    await until(lambda: comparisons.begun == 1)
    second = await begin_to_wait(bob)
    others = asyncio.create_task(do(alice, "/file diff a"))
    await until(lambda: comparisons.begun == 2)
    assert not second.done()
    comparisons.gate.set()
    await asyncio.gather(first, second, others)
    assert comparisons.begun == 3


async def test_cancelled_comparison_keeps_its_turn_until_its_thread_ends(
    bob: Someone, comparisons: GatedComparisons
) -> None:
    await do(bob, "/file put a = one")
    first = asyncio.create_task(do(bob, "/file diff a"))
    await until(lambda: comparisons.begun == 1)
    first.cancel()
    second = await begin_to_wait(bob)
    assert comparisons.begun == 1
    comparisons.gate.set()
    await asyncio.wait({first, second})
    assert first.cancelled()
    assert comparisons.begun == 2
