"""Answers to approvals whose request goes away while they are recorded."""

from __future__ import annotations

import asyncio

import pytest

from sshwarma.tools.approvals import Answer, Approvals, WaitingApproval
from sshwarma.world.errors import NotFound
from sshwarma.world.world import World
from support.people import Someone


@pytest.mark.parametrize("turns", range(1, 6))
async def test_recorded_answer_counts_though_its_request_is_gone(
    world: World, alice: Someone, turns: int
) -> None:
    approvals = Approvals(world)
    waiting = WaitingApproval(
        1, alice.room_id, "kit:conf", {}, alice.id, alice.id, 0,
        asyncio.get_running_loop().create_future(),
    )  # fmt: skip
    approvals._waiting[1] = waiting
    answering = asyncio.create_task(
        approvals.answer(alice.caller, waiting, Answer(alice.id, is_allowed=False))
    )
    for _ in range(turns):
        await asyncio.sleep(0)
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert not waiting.answer.result().is_allowed
    with pytest.raises(NotFound):
        await approvals.answer(alice.caller, waiting, Answer(alice.id, is_allowed=True))
