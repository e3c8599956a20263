"""Turns whose unit of work is rolled back and runs again.

It does so after a failed transaction; here `lanes.UNITS_TWICE` names the file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from sshwarma.common.units import MINUTE_MS
from sshwarma.models.backend import StepRequest, StreamPart, TextDelta
from sshwarma.models.turn_loop import RunningTurn
from sshwarma.verbs.dispatch import run_line
from sshwarma.world import agents, turns
from sshwarma.world.agents import Agent
from sshwarma.world.row import Row
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn
from support.house import House, Script, Scripted, said_by
from support.waiting import until


@pytest.fixture
async def llama(house: House) -> Scripted:
    """Another model, which qwen calls in its answer."""
    model = await house.world.change(lambda tx: agents.create_agent(tx, "llama", kind="model"))
    backend = house.backends[model.id] = Scripted(answer_with("Hello."))
    house.backend.script = answer_with("@llama what do you say?")
    return backend


def answer_with(text: str) -> Script:
    async def script(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        yield TextDelta(text)

    return script


async def ask(house: House) -> None:
    """Ask qwen, and wait until nobody answers any more."""
    await run_line(house.caller("alice"), "@qwen begin")
    await until(lambda: not house.turns.count_running())


async def read_turns(house: House) -> list[Turn]:
    found = await house.world.store.read(lambda conn: turns.read_newest_turns(conn, "lobby", 9))
    return sorted(found, key=lambda turn: turn.id)


async def test_model_that_an_answer_calls_is_asked_once(house: House, llama: Scripted) -> None:
    await ask(house)
    made = await house.world.last_rows("lobby", 9)
    assert len(said_by(made, house, "llama")) == len(llama.asked) == 1
    assert not [row for row in made if row.kind == "notice"]


async def test_turns_of_a_question_name_a_stored_turn_as_its_first(
    house: House, llama: Scripted
) -> None:
    await ask(house)
    first, second = await read_turns(house)
    assert first.root_turn_id is None
    assert second.root_turn_id == first.id


async def test_mute_ends_by_the_time_of_the_unit(
    house: House, llama: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_line(house.caller("alice"), "/mute llama 1")
    open_follow_ups = house.turns.open_follow_ups

    def open_later(tx: Change, running_turn: RunningTurn, row: Row) -> list[tuple[Turn, Agent]]:
        tx.now += 2 * MINUTE_MS
        return open_follow_ups(tx, running_turn, row)

    monkeypatch.setattr(house.turns, "open_follow_ups", open_later)
    await ask(house)
    assert len(await read_turns(house)) == 2
