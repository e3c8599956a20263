"""The session memory of plugins: what a call changed, beside changes of others."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.tools.provider import ToolResult
from sshwarma.toolsets.plugin_records import SESSION_KEY
from sshwarma.toolsets.plugin_session import RoomSessions
from sshwarma.toolsets.worker_process import WorkerAnswer
from sshwarma.world.things import Thing
from sshwarma.world.tool_names import PLUGIN_NAME_KEY
from sshwarma.world.world import World
from support.people import Someone, do, everything

TOOL = Thing(
    "0", None, "tool", "count", metadata={PLUGIN_NAME_KEY: "moltbook_count", SESSION_KEY: True}
)
COUNT: dict[str, Any] = {"set": {"count": "2", "other": "by the call"}, "delete": []}


@pytest.fixture
def sessions(world: World) -> RoomSessions:
    return RoomSessions(world)


async def end(
    sessions: RoomSessions, alice: Someone, session: dict[str, Any], said: dict[str, Any]
) -> ToolResult:
    """End a call whose worker says that it changed the memory."""
    answer = WorkerAnswer({"_meta": {"memory": said}}, ())
    return await sessions.end(alice.caller, TOOL, session, answer, ToolResult("counted"))


@pytest.mark.parametrize(
    ("line", "said", "stays"),
    [
        ("/mem session set count = 7", "changed", {"count": "7"}),
        ("/mem session delete count", "deleted", {}),
        ("/mem session set other = mine", "set", {"count": "1", "other": "mine"}),
    ],
)
async def test_value_that_was_changed_during_a_call_stays(
    sessions: RoomSessions, alice: Someone, line: str, said: str, stays: dict[str, str]
) -> None:
    await do(alice, "/mem session set count = 1")
    session = await sessions.begin(alice.caller, TOOL)
    await do(alice, line)
    result = await end(sessions, alice, session, COUNT)
    assert result.is_error
    key = "other" if "other" in stays else "count"
    assert f"were not stored: The value of {key} was {said} by another" in result.text, result
    assert result.text.startswith("counted\n")
    present = await sessions.begin(alice.caller, TOOL)
    assert present["session"]["memory"] == stays


async def test_deletion_of_a_value_that_was_changed_during_a_call_is_refused(
    sessions: RoomSessions, alice: Someone
) -> None:
    await do(alice, "/mem session set count = 1")
    session = await sessions.begin(alice.caller, TOOL)
    await do(alice, "/mem session set count = 7")
    result = await end(sessions, alice, session, {"set": {}, "delete": ["count"]})
    assert result.is_error
    assert (await do(alice, "/mem session get count")).value == "7"


async def test_other_keys_and_the_same_value_are_no_conflict(
    sessions: RoomSessions, alice: Someone
) -> None:
    await do(alice, "/mem session set count = 1")
    await do(alice, "/mem session set gone = x")
    session = await sessions.begin(alice.caller, TOOL)
    for line in ("set count = 2", "set third = 3", "delete gone"):
        await do(alice, f"/mem session {line}")
    said = COUNT | {"delete": ["gone"]}
    assert not (await end(sessions, alice, session, said)).is_error
    present = await sessions.begin(alice.caller, TOOL)
    expected = {"count": "2", "other": "by the call", "third": "3"}
    assert present["session"]["memory"] == expected


async def test_refused_change_stores_nothing_and_costs_nothing(
    world: World, sessions: RoomSessions, alice: Someone
) -> None:
    await do(alice, "/mem session set count = 1")
    session = await sessions.begin(alice.caller, TOOL)
    await do(alice, "/mem session set count = 7")
    before = await everything(world)
    limit = alice.limits.text_mib_per_hour
    large = {"set": {"count": "x" * 60_000}, "delete": []}
    for _ in range(limit * 1024 * 1024 // 60_000 + 2):
        assert "by another" in (await end(sessions, alice, session, large)).text
    assert await everything(world) == before
