"""Calls whose arguments and results the log of the room does not show."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import pytest

from sshwarma.models.backend import StepRequest, StreamPart, TextDelta, ToolCall
from sshwarma.tools.call_outcome import PRIVATE_RESULT
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.search import SearchResults
from sshwarma.world.row import Row
from support.house import House, house
from support.rows import read_rows_after

__all__ = ["house"]

SECRET = "the plan is swordfish"


async def log_of(house: House) -> list[Row]:
    return await house.world.store.read(lambda conn: read_rows_after(conn, "lobby", 0, 100))


async def assert_secret_is_hidden(house: House) -> None:
    assert not [row for row in await log_of(house) if "swordfish" in row.content]
    found = await run_line(house.caller("qwen"), "/search swordfish")
    assert isinstance(found, SearchResults)
    assert found.entries == ()


async def test_private_message_by_a_tool_is_not_in_the_log(house: House) -> None:
    await house.says("alice", "/equip room sshwarma:tell sshwarma:history")
    told = await house.tools.call(
        house.caller("alice"), "sshwarma__tell", {"name": "bob", "text": SECRET}
    )
    assert told.ending == "result"
    assert SECRET in told.text
    await assert_secret_is_hidden(house)
    read = await house.tools.call(house.caller("bob"), "sshwarma__history", {"agent": "alice"})
    assert SECRET in read.text
    await assert_secret_is_hidden(house)
    assert [row.content for row in await log_of(house) if row.kind.startswith("tool.")] == [
        "{}",
        PRIVATE_RESULT,
    ] * 2


async def test_search_by_a_tool_leaves_out_what_the_room_may_not_read(house: House) -> None:
    await house.says("alice", f"/tell bob {SECRET}")
    await house.says("alice", "/create vault")
    by_hand = await run_line(house.caller("alice"), "/search swordfish")
    assert isinstance(by_hand, SearchResults)
    assert len(by_hand.entries) == 1
    by_tool = await house.tools.call(house.caller("alice"), "global__search", {"text": "swordfish"})
    assert SECRET not in by_tool.text


@pytest.mark.parametrize("is_equipped", [True, False])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sshwarma__tell", {"name": "nobody", "text": SECRET}),
        ("sshwarma__tell", {"name": "bob", "message": SECRET}),
        ("sshwarma__tell", {"arguments": {"name": "bob", "text": SECRET}}),
        ("sshwarma__tell", {"name": f"bob {SECRET}", "text": None}),
        ("tell", {"name": "nobody", "text": SECRET}),
        ("tell_privately", {"to": "bob", "text": SECRET}),
        ("sshwarma__history", {"before": SECRET}),
    ],
)
async def test_refused_private_call_of_a_model_is_not_in_the_log(
    house: House, name: str, arguments: dict[str, object], is_equipped: bool
) -> None:
    async def answer(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.steps:
            yield TextDelta("done")
        else:
            yield ToolCall("1", name, arguments)

    if is_equipped:
        await house.says("alice", "/equip room sshwarma:tell sshwarma:history")
    house.backend.script = answer
    await house.says("alice", "@qwen go on")
    assert [row for row in await log_of(house) if row.kind == "tool.error"]
    await assert_secret_is_hidden(house)


@pytest.mark.parametrize(
    ("name", "arguments", "is_shown"),
    [
        ("project_memory_list_variables", {"prefix": "shown", "limit": -1}, True),
        ("project_memory_get_variable", {"key": 5}, True),
        ("project_memory_set_variable", {"key": "shown"}, True),
        ("project_memory_list_variables", {"limit": "swordfish"}, False),
        ("project_memory_get_variable", {"key": ["swordfish"]}, False),
        ("project_memory_get_variable", {"key": "swordfish", "proyect": "/x"}, False),
        ("project_memory_get_variable", {"key": "swordfish", "project": "/x"}, False),
    ],
)
async def test_refused_call_that_can_have_nothing_private_is_in_the_log(
    house: House, name: str, arguments: dict[str, object], is_shown: bool
) -> None:
    async def answer(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.steps:
            yield TextDelta("done")
        else:
            yield ToolCall("1", name, arguments)

    house.backend.script = answer
    await house.says("alice", "@qwen go on")
    call, error = [row for row in await log_of(house) if row.kind.startswith("tool.")]
    assert error.kind == "tool.error"
    if is_shown:
        assert json.loads(call.content) == arguments
        assert error.content != PRIVATE_RESULT
    else:
        assert (call.content, error.content) == ("{}", PRIVATE_RESULT)
        await assert_secret_is_hidden(house)


async def test_model_reads_its_private_messages_only_to_who_exchanged_them(house: House) -> None:
    seen: list[str] = []

    async def answer(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        if request.steps:
            seen.append(str(request.steps))
            yield TextDelta("done")
        else:
            yield ToolCall("1", "sshwarma__history", {"agent": "@bob"})

    await house.says("alice", "/equip room sshwarma:tell sshwarma:history")
    await run_line(house.caller("qwen"), f"/tell bob {SECRET}")
    house.backend.script = answer
    await house.says("alice", "@qwen what did you tell bob?")
    assert "are not for alice to read" in seen[-1]
    assert SECRET not in seen[-1]
    await house.says("bob", "@qwen what did you tell me?")
    assert SECRET in seen[-1]
