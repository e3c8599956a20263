"""What an agent can call: its loadout where it is, permanent tools, and no more."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp.shared.exceptions import MCPError

from sshwarma.common.limits import MAX_PAGE_ENTRIES
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.tools.progress import ProgressText
from sshwarma.tools.provider import ToolResult
from sshwarma.world.errors import Conflict
from support.mcp_server import EndlessCall, Served, words

TOP = Path(__file__).parents[2]

ALWAYS = [
    "look", "who", "rooms", "join", "say", "tell", "history", "inventory_list", "inventory_equip",
    "inventory_unequip", "list_rooms", "find_rooms", "load_room", "unload_room", "use_tool",
    "wait_events",
]  # fmt: skip


async def names(client: Any) -> list[str]:
    return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


async def test_tool_list_is_the_loadout_plus_builtin_tools(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    async with served.client(token, mode) as client:
        load = await served.world.loadout("lobby", served.world.agents.find("ann").id)
        labels = (item.thing.label for item in load.usable_tools)
        expected = sorted(
            label.removeprefix("memory:").replace(":", ".")
            for label in labels
            if label.partition(":")[2] not in (*ALWAYS, "inventory")
        )
        assert {"sshwarma.go", "global.search"} < set(expected)
        assert await names(client) == ALWAYS + expected
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        assert await names(client) == ALWAYS + expected


def test_the_manual_lists_what_is_always_there() -> None:
    manual = " ".join((TOP / "docs" / "mcp.md").read_text(encoding="utf-8").split())
    listed = manual.partition(" that are always there: ")[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", listed) == ALWAYS
    assert "and sixteen that are always there" in manual and len(ALWAYS) == 16


async def test_internal_error_reveals_no_details(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: Any, **more: Any) -> Any:
        raise RuntimeError("secret inside")

    token = await served.newcomer("ann")
    async with served.client(token) as client:
        monkeypatch.setattr("sshwarma.mcp.server.builtin_tools.invoke", fail)
        result = await client.call_tool("look", {})
    assert result.is_error
    assert words(result) == INTERNAL_ERROR == "Internal error. The server's log has the details."


async def test_every_tool_has_valid_schemas(served: Served) -> None:
    token = await served.newcomer("ann", role="owner")
    await served.do("ann", "/equip room sshwarma:*")
    async with served.client(token) as client:
        listed = (await client.list_tools()).tools
    assert len(listed) > 40
    for tool in listed:
        assert tool.description and tool.input_schema["type"] == "object"
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.annotations is not None and tool.annotations.read_only_hint is not None
        assert tool.output_schema is None, tool.name
    hints = {tool.name: tool.annotations for tool in listed}
    assert hints["sshwarma.exits"].read_only_hint and hints["look"].read_only_hint
    assert not hints["say"].read_only_hint and not hints["say"].destructive_hint
    assert hints["sshwarma.drop"].destructive_hint
    assert not hints["inventory_unequip"].destructive_hint, "equipping it again brings it back"


async def test_results_are_structured_without_listed_schemas(served: Served, mode: str) -> None:
    token = await served.newcomer("ann", role="owner")
    async with served.client(token, mode) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        for name, arguments in (
            ("look", {}),
            ("look", {"thing": "lobby"}),
            ("who", {}),
            ("rooms", {}),
            ("say", {"text": "hello"}),
            ("history", {}),
            ("history", {"row": 1}),
            ("inventory_list", {"inventory": "all"}),
            ("inventory_equip", {"patterns": "sshwarma:put", "context": "room"}),
            ("inventory_unequip", {"patterns": "sshwarma:put", "context": "room"}),
            ("join", {"room": "home"}),
            ("wait_events", {"timeout": 0}),
            ("sshwarma.look", {}),
            ("global.help", {}),
        ):
            result = await client.call_tool(name, arguments)
            assert not result.is_error, words(result)
            assert words(result)
            assert isinstance(result.structured_content, dict)
        assert not any(schemas.values()), "they would be half of the tokens of a list"
        used = await client.call_tool("use_tool", {"name": "sshwarma:who", "arguments": {}})
        assert used.structured_content["people"][0]["name"] == "ann"


async def test_tool_call_is_recorded_and_looking_around_is_not(served: Served) -> None:
    token = await served.newcomer("ann")
    async with served.client(token) as client:
        await client.call_tool("who", {})
        await client.call_tool("wait_events", {"timeout": 0})
        await client.call_tool("sshwarma.who", {})
        await client.call_tool("use_tool", {"name": "sshwarma.who"})
    kinds = [
        row.kind for row in await served.world.last_rows("lobby", 20) if row.kind != "presence"
    ]
    assert kinds == ["tool.call", "tool.result"] * 2


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("join", {"room": "nowhere"}, "Unknown room nowhere."),
    ("join", {"rom": "lobby"}, "rom"),
    (
        "join",
        {"room": "git"},
        'git is a namespace of tools, not a room to stand in. load_room {"room": "git"} loads its',
    ),
    ("say", {}, "text"),
    ("say", {"text": " "}, "text: must not be empty."),
    ("look", {"thing": 7}, "thing"),
    ("wait_events", {"timeout": 61}, "timeout"),
    ("wait_events", {"cursor": "nonsense"}, "cursor: nonsense is no cursor."),
    ("wait_events", {"cursor": "me:" + "9" * 30}, "cursor: me:9"),
    ("wait_events", {"cursor": "me:\u0663"}, "cursor: me:\u0663 is no cursor."),
    ("wait_events", {"rooms": ["nowhere"]}, "Unknown room nowhere."),
    ("wait_events", {"rooms": ["lobby"] * 21}, "rooms"),
    ("say", {"text": "hi", "room": "nowhere"}, "Unknown room nowhere."),
    ("say", {"text": "hi", "room": 7}, "room: must be text."),
    ("use_tool", {}, "name"),
    ("use_tool", {"name": "nothing.at_all"}, "Unknown tool"),
    ("nothing", {}, "Unknown tool nothing."),
    ("git.commit", {}, "git.commit is not equipped here."),
    ("git__commit", {}, "git.commit is not equipped here."),
    ("git:commit", {}, "git.commit is not equipped here."),
    ("inventory_equip", {"patterns": "nothing:*", "context": "me"}, "Nothing matches"),
    (
        "inventory_equip",
        {"patterns": "git:*", "context": "room"},
        "needs the build right in lobby",
    ),
]


async def test_refusal_is_an_error_result_with_text(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    ran: list[bool] = []
    await served.tool("git", "commit", lambda *_: ran.append(True))
    async with served.client(token, mode) as client:
        for name, arguments, expected in REFUSALS:
            result = await client.call_tool(name, arguments)
            assert result.is_error, name
            assert expected in words(result), name
            assert result.structured_content is None
        assert not ran
        assert not (await client.call_tool("look", {})).is_error


async def test_equipped_tool_is_called_and_returns_its_result(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    given: list[dict[str, Any]] = []

    def play(caller: Any, tool: Any, arguments: dict[str, Any]) -> ToolResult:
        given.append(arguments)
        if arguments.get("bars") == 0:
            raise Conflict("There is no music in that.")
        return ToolResult("played", {"bars": arguments["bars"]})

    made = await served.tool("holler", "play", play, annotations={"readOnlyHint": True})
    await served.equip("lobby", made)
    async with served.client(token, mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed["holler.play"].description == "Does play."
        assert listed["holler.play"].annotations.read_only_hint
        for name in ("holler.play", "holler:play", "holler__play", "play"):
            result = await client.call_tool(name, {"bars": 4})
            assert (words(result), result.structured_content) == ("played", {"bars": 4})
        failed = await client.call_tool("holler.play", {"bars": 0})
        assert failed.is_error and words(failed) == "There is no music in that."
    assert given == [{"bars": 4}] * 4 + [{"bars": 0}]


async def test_failing_tool_reveals_no_details(served: Served) -> None:
    token = await served.newcomer("ann")

    def fail(*_: Any) -> ToolResult:
        raise RuntimeError("secret inside")

    await served.equip("lobby", await served.tool("holler", "fail", fail))
    async with served.client(token) as client:
        result = await client.call_tool("holler.fail", {})
        assert result.is_error and words(result) == INTERNAL_ERROR


async def test_each_agent_sees_and_calls_only_its_own_tools(served: Served, mode: str) -> None:
    ann, ben = await served.newcomer("ann"), await served.newcomer("ben")
    ids = {name: served.world.agents.find(name).id for name in ("ann", "ben")}
    await served.equip(ids["ann"], await served.tool("of-ann", "mine"))
    await served.equip(ids["ben"], await served.tool("of-ben", "his"))
    async with served.client(ann, mode) as one, served.client(ben, mode) as other:
        anns, bens = await names(one), await names(other)
        assert "of-ann.mine" in anns and "of-ben.his" not in anns
        assert "of-ben.his" in bens and "of-ann.mine" not in bens
        assert not (await one.call_tool("of-ann.mine", {})).is_error
        refused = await one.call_tool("of-ben.his", {})
        assert refused.is_error and "of-ben.his is not equipped here" in words(refused)


async def test_room_is_shared_by_all_connections_of_an_agent(served: Served) -> None:
    token = await served.newcomer("ann", role="owner")
    await served.do("ann", "/create den")
    await served.do("ann", "/leave")
    await served.equip((await served.world.find_room("den")).id, await served.tool("t", "there"))
    async with served.client(token) as modern, served.client(token, "legacy") as older:
        assert "t.there" not in await names(older)
        assert not (await modern.call_tool("join", {"room": "den"})).is_error
        assert "t.there" in await names(older)
        assert (await older.call_tool("look", {})).structured_content["name"] == "den"
    other = await served.token("ann")
    async with served.client(other, "legacy") as again:
        assert (await again.call_tool("look", {})).structured_content["name"] == "den"


async def test_long_tool_list_is_paged_completely(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    many = 2 * MAX_PAGE_ENTRIES + 7
    made = [await served.tool("many", f"t{number:04}") for number in range(many)]
    await served.equip("lobby", *made)
    async with served.client(token, mode) as client:
        found: list[str] = []
        cursor, pages = None, 0
        while pages == 0 or cursor:
            answer = await client.list_tools(cursor=cursor)
            found += [tool.name for tool in answer.tools]
            cursor, pages = answer.next_cursor, pages + 1
        assert pages == 3
        assert len(set(found)) == len(found)
        assert [name for name in found if name.startswith("many.")] == [
            f"many.t{number:04}" for number in range(many)
        ]
        assert found[: len(ALWAYS)] == ALWAYS
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_tools(cursor="rubbish")


@pytest.mark.parametrize("scope", ["read", "act", "build"])
async def test_token_scope_limits_listed_and_callable_tools(
    served: Served, mode: str, scope: str
) -> None:
    token = await served.newcomer("ann", role="owner", scope=scope)
    await served.do("ann", "/equip room sshwarma:*")
    await served.equip("lobby", await served.tool("holler", "play"))
    needed = {
        "look": "read",
        "history": "read",
        "wait_events": "read",
        "sshwarma.exits": "read",
        "say": "act",
        "use_tool": "act",
        "holler.play": "act",
        "sshwarma.note": "act",
        "inventory_equip": "act",
        "sshwarma.put": "build",
        "join": "act",
        "sshwarma.create": "build",
    }
    arguments: dict[str, dict[str, Any]] = {
        "say": {"text": "hi"},
        "join": {"room": "home"},
        "use_tool": {"name": "sshwarma.look"},
        "sshwarma.note": {"text": "hi"},
        "inventory_equip": {"patterns": "holler:*"},
        "sshwarma.put": {"name": "note", "text": "x"},
        "sshwarma.create": {"room": "den"},
        "wait_events": {"timeout": 0},
    }
    reach = ["read", "act", "build"]
    async with served.client(token, mode) as client:
        listed = await names(client)
        for name, least in needed.items():
            may = reach.index(scope) >= reach.index(least)
            assert (name in listed) is may, name
            if not may:
                refused = await client.call_tool(name, arguments.get(name, {}))
                assert refused.is_error, name
                assert f"needs the scope {least}; this token has {scope}" in words(refused)
        if scope == "act":
            through = await client.call_tool(
                "use_tool", {"name": "sshwarma.create", "arguments": {"room": "den"}}
            )
            assert through.is_error and "needs the scope build" in words(through)
            for_all = await client.call_tool(
                "inventory_equip", {"patterns": "holler:*", "context": "room"}
            )
            assert for_all.is_error and "needs the scope build" in words(for_all)
        for name in needed:
            if name in listed:
                done = await client.call_tool(name, arguments.get(name, {}))
                assert not done.is_error, (name, words(done))


async def test_progress_is_forwarded(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    goes_on = asyncio.Event()

    async def slow(caller: Any, tool: Any, arguments: dict[str, Any]) -> ToolResult:
        caller.on_progress("half way")
        await goes_on.wait()
        return ToolResult("there")

    await served.equip("lobby", await served.tool("t", "slow", slow))
    heard: list[tuple[float, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))
        goes_on.set()

    async with served.client(token, mode) as client:
        result = await client.call_tool("t.slow", {}, progress_callback=progress)
    assert words(result) == "there"
    assert heard == [(1, "half way")]


async def test_numbers_of_progress_are_forwarded(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    goes_on = asyncio.Event()
    heard: list[tuple[float, float | None, str | None]] = []

    async def slow(caller: Any, tool: Any, arguments: dict[str, Any]) -> ToolResult:
        for text in (ProgressText("1/4", 1, 4), ProgressText("2/4 half", 2, 4)):
            goes_on.clear()
            caller.on_progress(text)
            await asyncio.wait_for(goes_on.wait(), 20)
        return ToolResult("there")

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))
        goes_on.set()

    await served.equip("lobby", await served.tool("t", "slow", slow))
    async with served.client(token, mode) as client:
        await client.call_tool("t.slow", {}, progress_callback=progress)
    assert heard == [(1, 4, "1/4"), (2, 4, "2/4 half")]


async def test_cancelled_call_is_stopped_and_recorded(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    endless = EndlessCall()
    await served.equip("lobby", await served.tool("t", "endless", endless))
    async with served.client(token, mode) as client:
        call = asyncio.create_task(client.call_tool("t.endless", {}))
        await asyncio.wait_for(endless.began.wait(), 20)
        call.cancel()
        await asyncio.wait_for(endless.stopped.wait(), 20)
        await served.received("lobby", "The call was stopped.")
        assert not (await client.call_tool("look", {})).is_error
    await served.until(lambda: not any(guest.calls for guest in served.guests))
    last = (await served.world.last_rows("lobby", 50))[-1]
    rows = [
        row for row in await served.world.last_rows("lobby", 50) if row.kind.startswith("tool.")
    ]
    assert [(row.kind, row.content) for row in rows][-1] == (
        "tool.error",
        "The call was stopped.",
    ), last
