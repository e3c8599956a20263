"""Questions for an approval end at once when their call cannot be made any more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from sshwarma.tools.approvals import WaitingApproval
from sshwarma.tools.call_outcome import CallOutcome
from sshwarma.verbs.dispatch import run_line
from sshwarma.world import things
from sshwarma.world.errors import NotFound
from sshwarma.world.events import PresenceChanged, RowAppended
from sshwarma.world.overrides import CONFIRM_KEY
from sshwarma.world.presence import AgentConnection
from sshwarma.world.questions import Question
from sshwarma.world.things import Thing
from support.house import House, house
from support.kit_tool import IdleProvider, equip_kit_tool
from support.people import make
from support.waiting import until

__all__ = ["house"]


@pytest.fixture
async def kit(house: House) -> Thing:
    """A namespace with the tool `kit:ask`, whose calls need an approval."""
    space = await equip_kit_tool(house, IdleProvider(), **{CONFIRM_KEY: True})
    for name in ("alice", "bob"):
        agent = house.world.agents.find(name)
        house.world.presence.enter(AgentConnection(agent.id, "lobby", "ssh"))
    return space


async def ask(house: House) -> tuple[WaitingApproval, asyncio.Task[CallOutcome]]:
    """Let bob call the tool; return the question, and the call that waits."""
    asked = asyncio.Event()

    def hear(event: Any) -> None:
        if isinstance(event, RowAppended) and event.row.content.startswith("asks to run kit:ask"):
            asked.set()

    stop = house.world.bus.on_room("lobby", hear)
    call = asyncio.create_task(house.tools.call(house.caller("bob"), "kit:ask", {}))
    await asyncio.wait_for(asked.wait(), 30)
    stop()
    (waiting,) = house.tools.approvals.list_in("lobby")
    return waiting, call


async def change_world(house: House, space: Thing, change: str) -> None:
    def work(tx: Any) -> None:
        tool = things.find_child(tx.conn, space.id, "ask", "tool")
        assert tool is not None
        if change == "uninstall":
            things.delete_thing(tx, space)
        elif change == "disable":
            things.update_thing(tx, space.id, enabled=0)
        else:
            things.update_thing(tx, tool.id, metadata={**tool.metadata, "version": "2"})

    if change.startswith("/"):
        await run_line(house.caller("alice"), change)
    else:
        await house.world.change(work)


async def test_what_a_script_asked_a_model_is_allowed_by_its_person_alone(
    house: House, kit: Thing
) -> None:
    approvals = house.tools.approvals
    for name in ("bob", "alice"):
        question = Question(house.caller(name).agent.id, max_turns=4)
        caller = replace(
            house.caller("qwen"), question=question, door="model", called_in_id="lobby",
            command="a question of a script",
        )  # fmt: skip
        call = asyncio.create_task(house.tools.call(caller, "kit:ask", {}))
        await until(lambda call=call: call.done() or approvals.list_in("lobby"))
        for waiting in approvals.list_in("lobby"):
            assert (name, waiting.is_of_script) == ("alice", True)
            call.cancel()
        if name == "bob":
            assert "in the name of bob, who alone could give it" in (await call).text


async def test_question_of_a_script_is_withdrawn_when_its_person_goes(
    house: House, kit: Thing
) -> None:
    question = Question(house.caller("alice").agent.id, max_turns=4)
    caller = replace(
        house.caller("qwen"), question=question, door="model", called_in_id="lobby",
        command="a script of alice",
    )  # fmt: skip
    call = asyncio.create_task(house.tools.call(caller, "kit:ask", {}))
    await until(lambda: call.done() or house.tools.approvals.list_in("lobby"))
    assert house.tools.approvals.list_in("lobby")[0].question.startswith(
        "asks to run kit:ask for a script"
    )
    (link,) = house.world.presence.connections_of(house.caller("alice").agent.id)
    house.world.presence.leave(link)
    house.world.publish(PresenceChanged("lobby"))
    assert "in the name of alice, who alone could give it" in (await call).text


@pytest.mark.parametrize(
    "change",
    ["uninstall", "disable", "upgrade", "/tool disable kit:ask", "/unequip room kit:ask"],
)
async def test_question_of_a_tool_that_is_gone_is_withdrawn(
    house: House, kit: Thing, change: str
) -> None:
    waiting, call = await ask(house)
    await change_world(house, kit, change)
    outcome = await asyncio.wait_for(call, 30)
    why = "changed after the question" if change == "upgrade" else "cannot be used here any more"
    assert outcome.ending == "error"
    assert why in outcome.text
    log = [row.content for row in await house.world.last_rows("lobby", 10)]
    assert f"kit:ask (approval {waiting.number}) is not asked for any more" in log
    with pytest.raises(NotFound, match="waits for an approval"):
        await run_line(house.caller("alice"), f"/allow {waiting.number}")
    assert not any(line.startswith("allowed") for line in log)


async def test_answer_at_the_moment_of_a_stop_is_refused(house: House, kit: Thing) -> None:
    waiting, call = await ask(house)
    call.cancel()
    await asyncio.sleep(0)
    with pytest.raises(NotFound, match="waits for an approval"):
        await run_line(house.caller("alice"), f"/allow {waiting.number}")
    with pytest.raises(asyncio.CancelledError):
        await call
    log = [row.content for row in await house.world.last_rows("lobby", 10)]
    assert f"kit:ask (approval {waiting.number}) is not asked for any more" in log
    assert not any(line.startswith("allowed") for line in log)


async def test_answer_before_a_stop_is_not_withdrawn(house: House, kit: Thing) -> None:
    waiting, call = await ask(house)
    allowing = asyncio.create_task(run_line(house.caller("alice"), f"/allow {waiting.number}"))
    while not waiting.deciding.locked():
        assert not allowing.done()
        await asyncio.sleep(0)
    call.cancel()
    await allowing
    with pytest.raises(asyncio.CancelledError):
        await call
    log = [row.content for row in await house.world.last_rows("lobby", 10)]
    assert f"allowed kit:ask (approval {waiting.number})" in log
    assert not any("is not asked for any more" in line for line in log)


async def test_question_stays_when_something_else_changes(house: House, kit: Thing) -> None:
    waiting, call = await ask(house)
    await make(house.world, "mcps", "mcp", "other", qualified_name="other")
    await run_line(house.caller("alice"), "/describe A hall.")
    await run_line(house.caller("alice"), f"/allow {waiting.number}")
    outcome = await asyncio.wait_for(call, 30)
    assert (outcome.ending, outcome.text) == ("result", "done")
