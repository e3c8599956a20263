"""Events for MCP clients: `wait_events`, its cursors and rooms."""

from __future__ import annotations

import asyncio
import re

import pytest

from sshwarma.common.limits import MAX_WAIT_EVENTS
from sshwarma.events.choose_events import open_feed
from sshwarma.events.event_types import RowEvent
from sshwarma.mcp.server import wait_events
from sshwarma.world.caller import Caller
from support.mcp_server import Served, events, words
from support.services import services_in


async def test_mention_ends_wait_events_and_can_be_answered(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben")
    async with served.client(token, mode) as client:
        first = await events(client, seconds=0)
        assert first["events"] == [] and first["room"] == "lobby"
        waits = asyncio.create_task(events(client, first["cursor"]))
        await served.until(lambda: any(guest.calls for guest in served.guests))
        await served.do("ben", "@ann are you there?")
        heard = await waits
        (event,) = heard["events"]
        assert (event["type"], event["room"], event["kind"]) == ("row", "lobby", "chat")
        assert event["speaker"] == {"name": "ben", "kind": "person"}
        assert (event["text"], event["mention"]) == ("@ann are you there?", True)
        assert event["reply"] == {"verb": "say", "arguments": {}, "room": "lobby"}
        await client.call_tool("say", {"text": "@ben I am"})
        await served.do("ben", "/tell ann a secret")
        await served.do("ben", "good")
        later = await events(client, heard["cursor"])
        assert [(e["kind"], e["text"], e["to_you"], e["mention"]) for e in later["events"]] == [
            ("tell", "a secret", True, True),
            ("chat", "good", False, False),
        ]
        assert later["events"][0]["reply"] == {"verb": "tell", "arguments": {"name": "ben"}}
        assert (await events(client, later["cursor"], 0))["events"] == []
        said = {row.content: row for row in await served.world.last_rows("lobby", 20)}["@ben I am"]
        assert served.world.agents.name_of(said.author_id) == "ann"


async def test_wait_without_a_cursor_starts_at_the_last_call(served: Served, mode: str) -> None:
    token = await served.newcomer("ann", role="owner")
    await served.agent("ben")
    await served.do("ben", "too early")
    async with served.client(token, mode) as client:
        for name, arguments in (
            ("say", {"text": "@ben what is the port?"}),
            ("look", {}),
            ("who", {}),
            ("use_tool", {"name": "sshwarma.look"}),
            ("sshwarma.look", {}),
        ):
            await served.do("ben", "before")
            assert not (await client.call_tool(name, arguments)).is_error
            await served.do("ben", f"@ann 8080, after {name}")
            heard = await events(client, seconds=0)
            assert [event["text"] for event in heard["events"]] == [f"@ann 8080, after {name}"]
            assert (await events(client, seconds=0))["events"] == [], "each event comes once"
        await served.do("ben", "welcome", room="home")
        await client.call_tool("join", {"room": "home"})
        await served.do("ben", "at home", room="home")
        assert [e["text"] for e in (await events(client, seconds=0))["events"]] == ["at home"]


async def test_last_call_is_remembered_while_the_agent_is_away(served: Served) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben")
    async with served.client(token, "legacy") as client:
        await client.call_tool("say", {"text": "what is the port?"})
    await served.until(lambda: "ann" not in served.here())
    await served.do("ben", "8080")
    async with served.client(token, "legacy") as client:
        texts = [event["text"] for event in (await events(client, seconds=0))["events"]]
    assert texts == ["8080"]


async def test_say_look_and_join_return_a_cursor(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben")
    async with served.client(token, mode) as client:
        for name, arguments, room in (
            ("say", {"text": "what is the port?"}, "lobby"),
            ("look", {}, "lobby"),
            ("look", {"thing": "@ben"}, "lobby"),
            ("join", {"room": "home"}, "home"),
        ):
            result = await client.call_tool(name, arguments)
            cursor = result.structured_content["cursor"]
            assert words(result).endswith(f"\nCursor for wait_events: {cursor}.")
            await served.do("ben", f"after {name}", room=room)
            await client.call_tool("who", {})
            heard = await events(client, cursor, 0)
            assert [event["text"] for event in heard["events"]] == [f"after {name}"]


async def test_agent_hears_and_answers_in_several_rooms(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/create den")
    await served.do("ben", "/create attic")
    async with served.client(token, mode) as client:
        given = {"rooms": ["den", "home"], "timeout": 0}
        first = await client.call_tool("wait_events", given)
        for room in ("den", "home", "attic"):
            await served.do("ben", f"@ann in {room}", room=room)
        later = await client.call_tool(
            "wait_events", {**given, "cursor": first.structured_content["cursor"]}
        )
        heard = later.structured_content
        assert [(e["room"], e["text"]) for e in heard["events"]] == [
            ("den", "@ann in den"),
            ("home", "@ann in home"),
        ]
        assert heard["room"] == "lobby"
        assert re.search(r"^den: .*@ann in den\nhome: ", words(later))
        for event in heard["events"]:
            reply = event["reply"]
            answered = await client.call_tool(
                reply["verb"], {**reply["arguments"], "room": reply["room"], "text": "heard"}
            )
            assert not answered.is_error, words(answered)
        for room in ("den", "home"):
            where = (await served.world.find_room(room)).id
            assert (await served.world.last_rows(where, 1))[0].content == "heard"
        # A room that the cursor lacks begins where the others were heard up to.
        await served.do("ben", "in the attic", room="attic")
        more = {"rooms": ["attic"], "cursor": heard["cursor"], "timeout": 0}
        found = (await client.call_tool("wait_events", more)).structured_content["events"]
        assert [e["text"] for e in found] == ["in the attic"]
        await served.do("ben", "/room private", room="attic")
        refused = await client.call_tool("wait_events", more)
        assert refused.is_error and "attic" in words(refused)


async def test_cursor_of_a_stream_is_a_cursor_of_wait_events(served: Served) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben")
    ann = served.world.agents.find("ann")
    caller = Caller(served.world, services_in(served.world), served.limits, ann, "lobby", "api")
    stream = (await open_feed(caller, types="row")).read()
    assert (await anext(stream))[0].type == "start"
    await served.do("ben", "one")
    (event,) = await anext(stream)
    assert isinstance(event, RowEvent)
    await served.do("ben", "two")
    async with served.client(token) as client:
        heard = await events(client, event.id, 0)
        assert [e["text"] for e in heard["events"] if e["kind"] == "chat"] == ["two"]
    await stream.aclose()


async def test_cursor_beyond_the_log_is_refused(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    async with served.client(token, mode) as client:
        newest = (await events(client, seconds=0))["cursor"]
        room, _, number = newest.partition(",me:")
        for cursor, name in (
            (f"{room},me:{int(number) + 1}", "the world"),
            ("lobby:9999,me:1", "lobby"),
            ("lobby:9999", "lobby"),
        ):
            refused = await client.call_tool("wait_events", {"cursor": cursor, "timeout": 0})
            assert refused.is_error
            assert words(refused) == (
                f"The cursor is beyond the end of the log of {name}. Leave it out to begin now."
            )
        assert (await events(client, newest, 0))["cursor"] == newest
        wrong = await client.call_tool("inventory_equip", {"patterns": 7})
        assert words(wrong).startswith("inventory_equip: patterns: must be text")


async def test_event_cursor_survives_reconnect_and_skips_private_messages(
    served: Served,
) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben")
    await served.agent("eve")
    async with served.client(token) as client:
        cursor = (await events(client, seconds=0))["cursor"]
    for number in range(MAX_WAIT_EVENTS + 5):
        await served.do("ben", f"line {number}")
    await served.do("ben", "/tell eve not for ann")
    async with served.client(token, "legacy") as client:
        found, more = [], True
        while more:
            answer = await events(client, cursor, 0)
            assert len(answer["events"]) <= MAX_WAIT_EVENTS
            found += [event["text"] for event in answer["events"]]
            cursor, more = answer["cursor"], answer["more"]
    assert found == [f"line {number}" for number in range(MAX_WAIT_EVENTS + 5)]


async def test_wait_events_reports_progress_and_times_out(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_events, "WAIT_REPORT_INTERVAL_SECONDS", 0.05)
    token = await served.newcomer("ann")
    heard: list[float] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async with served.client(token) as client:
        result = await client.call_tool("wait_events", {"timeout": 1.5}, progress_callback=progress)
    assert words(result).startswith("Nothing happened.\nCursor for wait_events: ")
    assert len(heard) >= 2 and heard == sorted(set(heard))
