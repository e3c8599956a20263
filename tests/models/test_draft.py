"""Drafts of answers: what was shown is on disk, also after a save that failed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sshwarma.models import draft
from sshwarma.models.draft import AnswerDraft
from sshwarma.world import drafts, turns
from sshwarma.world.errors import Unavailable
from sshwarma.world.world import World
from support.people import Someone


async def test_text_of_a_failed_save_is_in_the_next_save(
    world: World, bob: Someone, qwen: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft, "SAVE_INTERVAL_SECONDS", 0.0)
    change, saved = world.change, asyncio.Event()
    failures = [Unavailable("The disk is full.")]
    turn = await change(lambda tx: turns.open_turn(tx, "lobby", qwen.id, bob.id))
    answer = AnswerDraft(world, turn.id)

    async def fail_once(work: Any) -> Any:
        if failures:
            answer.update("hello world")
            raise failures.pop()
        result = await change(work)
        saved.set()
        return result

    monkeypatch.setattr(world, "change", fail_once)
    answer.update("hello")
    await asyncio.wait_for(saved.wait(), 30)
    answer.end()
    assert await change(lambda tx: drafts.pop_draft(tx, turn.id)) == "hello world"
