"""Notifications of changes reach only clients with changed, readable lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)

from sshwarma.mcp.server import notifications, subscription_methods
from support.mcp_server import Expiry, Served, words

pytestmark = pytest.mark.filterwarnings(
    # What the older era has and the newer has not is deprecated, and tested here.
    "ignore::mcp.shared.exceptions.MCPDeprecationWarning"
)

QUIET = 0.3
"""Seconds of silence: six times as long as changes are gathered.

Some tests are about a notification that is not sent. No event says so, only time does.
"""


class Ears:
    """What one client has heard, in either era."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.news = asyncio.Event()
        self.client: Client

    def add(self, what: str) -> None:
        self.heard.append(what)
        self.news.set()

    async def message(self, message: Any) -> None:
        method = getattr(message, "method", "")
        if method == "notifications/resources/updated":
            self.add(message.params.uri)
        elif method.endswith("/list_changed"):
            self.add(method.split("/")[1])

    async def listen(self, *uris: str) -> None:
        names = {
            ToolsListChanged: "tools",
            PromptsListChanged: "prompts",
            ResourcesListChanged: "resources",
        }
        async with self.client.listen(
            tools_list_changed=True,
            prompts_list_changed=True,
            resources_list_changed=True,
            resource_subscriptions=list(uris),
        ) as stream:
            self.news.set()
            async for event in stream:
                is_one = isinstance(event, ResourceUpdated)
                self.add(event.uri if is_one else names[type(event)])

    async def hears(self, what: str) -> None:
        async with asyncio.timeout(20):
            while what not in self.heard:
                self.news.clear()
                await self.news.wait()

    async def hears_nothing(self) -> None:
        before = list(self.heard)
        await asyncio.sleep(QUIET)  # silence is what is tested
        assert self.heard == before


@asynccontextmanager
async def listening(served: Served, token: str, mode: str, *uris: str) -> AsyncIterator[Ears]:
    """A client that hears of its lists and of some resources."""
    ears = Ears()
    handler = {"message_handler": ears.message} if mode == "legacy" else {}
    async with served.client(token, mode, **handler) as client:
        ears.client = client
        if mode == "legacy":
            for uri in uris:
                await client.subscribe_resource(uri)
            yield ears
            return
        task = asyncio.create_task(ears.listen(*uris))
        await asyncio.wait_for(ears.news.wait(), 20)
        yield ears
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_tool_list_change_notifies_only_the_affected_agent(served: Served, mode: str) -> None:
    ann, ben = await served.newcomer("ann"), await served.newcomer("ben", role="owner")
    made = await served.tool("t", "mine")
    async with listening(served, ann, mode) as anns, listening(served, ben, mode) as bens:
        await served.equip(served.world.agents.find("ann").id, made)
        await anns.hears("tools")
        names = [tool.name for tool in (await anns.client.list_tools()).tools]
        assert "t.mine" in names
        await bens.hears_nothing()
        assert bens.heard == []
        anns.heard.clear()
        await served.do("ben", "/describe A quiet place.")
        await anns.hears_nothing()
        await served.do("ben", "/unequip room sshwarma:go")
        await anns.hears("tools")
        await bens.hears("tools")
        assert anns.heard == ["tools"]


async def test_moving_to_another_room_changes_the_tool_list(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.equip("home", await served.tool("t", "at-home"))
    async with listening(served, token, mode) as ears:
        await ears.client.call_tool("join", {"room": "home"})
        await ears.hears("tools")
        assert "t.at-home" in [tool.name for tool in (await ears.client.list_tools()).tools]


async def test_prompt_and_room_changes_are_notified(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    async with listening(served, token, mode) as ears:
        await served.do("ben", "/put prompt:style = Be brief.")
        await served.do("ben", "/equip room prompt:style")
        await ears.hears("prompts")
        await served.do("ben", "/create den")
        await ears.hears("resources")
        ears.heard.clear()
        await served.do("ben", "/room private")
        await ears.hears("resources")
        ears.heard.clear()
        await served.do("ben", "/create another", room="den")
        await ears.hears("resources")


async def test_only_subscribed_resources_are_notified(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/put note = one")
    await served.do("ben", "/put other = one")
    uris = ("room://home", "room://lobby/log", "thing://lobby/note")
    async with listening(served, token, mode, *uris) as ears:
        await served.do("ben", "/put other = two", room="lobby")
        await served.do("ben", "hello", room="home")
        await ears.hears("room://lobby/log")  # the others were notified
        await ears.hears_nothing()
        assert set(ears.heard) == {"room://lobby/log"}
        ears.heard.clear()
        await served.do("ben", "/put note = two", room="lobby")
        await ears.hears("thing://lobby/note")
        assert (await ears.client.read_resource("thing://lobby/note")).contents[0].text == "two"
        await served.do("ben", "hello", room="lobby")
        await ears.hears("room://lobby/log")
        await served.do("ben", "/describe Soft chairs.", room="home")
        await ears.hears("room://home")


async def test_a_changed_memory_is_notified_to_who_may_read_it(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/mem project set plan = one", room="lobby")
    await served.do("ben", "/mem session set draft = one", room="lobby")
    uris = ("memory://project/plan", "memory://session", "memory://session/draft")
    async with listening(served, token, mode, *uris) as ears:
        read = await ears.client.read_resource("memory://session")
        assert read.contents[0].text == "draft"
        await served.do("ben", "/create den")
        await ears.hears("resources")
        ears.heard.clear()
        await served.do("ben", "/mem session set draft = of den", room="den")
        await served.do("ben", "/mem project set other = two", room="den")
        await ears.hears_nothing()
        await served.do("ben", "/mem project set plan = two", room="den")
        await ears.hears("memory://project/plan")
        read = await ears.client.read_resource("memory://project/plan")
        assert read.contents[0].text == "two"
        await served.do("ben", "/mem session delete draft", room="lobby")
        await ears.hears("memory://session/draft")
        await ears.hears("memory://session")
        ears.heard.clear()
        await served.do("ben", "/ban ann", room="lobby")
        await served.do("ben", "/mem project set plan = three", room="den")
        await asyncio.sleep(QUIET)  # silence is what is tested
        assert "memory://project/plan" not in ears.heard


async def test_subscribed_namespace_change_is_notified(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/namespace new git")
    async with listening(served, token, mode, "room://git", "room://lobby/log") as ears:
        await served.do("ben", "/namespace set git keywords push")
        await ears.hears("room://git")
        ears.heard.clear()
        await served.do("ben", "/namespace new other")
        await served.do("ben", "hello")
        await ears.hears("room://lobby/log")
        await ears.hears_nothing()
        assert "room://git" not in ears.heard
        await served.do("ben", "/namespace remove git")
        await served.do("ben", "hello again")
        await ears.hears("room://lobby/log")


async def test_forbidden_room_sends_no_notification(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/create den")
    await served.do("ben", "/create vault")
    await served.do("ben", "/room private", room="vault")
    async with listening(served, token, mode, "room://den/log") as ears:
        await served.do("ben", "hello", room="den")
        await ears.hears("room://den/log")
        await served.do("ben", "/ban ann", room="den")
        ears.heard.clear()
        await served.do("ben", "a secret", room="den")
        await ears.hears_nothing()
        assert ears.heard == []
        if mode == "legacy":
            for uri in ("room://vault", "room://vault/log", "room://nowhere", "rubbish"):
                with pytest.raises(MCPError, match="Unknown"):
                    await ears.client.subscribe_resource(uri)
    if mode == "auto":
        async with listening(served, token, mode, "room://vault/log", "room://home/log") as ears:
            await served.do("ben", "a secret", room="vault")
            await served.do("ben", "hello", room="home")
            await ears.hears("room://home/log")
            assert ears.heard == ["room://home/log"]


async def test_burst_of_changes_is_coalesced(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    ann = served.world.agents.find("ann").id
    made = [await served.tool("t", f"n{number}") for number in range(20)]
    async with listening(served, token, mode) as ears:
        await asyncio.gather(*(served.equip(ann, one) for one in made))
        await ears.hears("tools")
        listed: list[str] = []
        while len(listed) < 20:
            tools = (await ears.client.list_tools()).tools
            listed = [tool.name for tool in tools if tool.name.startswith("t.")]
        await asyncio.sleep(QUIET)  # silence is what is tested: no notification too many
        assert 1 <= ears.heard.count("tools") <= 3


async def test_subscriptions_are_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "MAX_SUBSCRIBED_RESOURCES", 2)
    monkeypatch.setattr(subscription_methods, "MAX_SUBSCRIBED_RESOURCES", 2)
    token = await served.newcomer("ann")
    async with listening(served, token, "legacy", "room://lobby", "room://home") as ears:
        with pytest.raises(MCPError, match=r"Too many subscriptions \(limit 2\)"):
            await ears.client.subscribe_resource("room://lobby/log")
        await ears.client.unsubscribe_resource("room://home")
        await ears.client.subscribe_resource("room://lobby/log")


async def test_stream_ends_when_its_token_expires(served: Served, expiry: Expiry) -> None:
    await served.agent("ann")
    token = await served.token("ann", days=1)
    ears = Ears()
    async with served.client(token) as client:
        ears.client = client
        expiry.soon()
        await asyncio.wait_for(ears.listen(), 20)
        expiry.past()
        refused = None
        try:
            refused = await client.call_tool("look", {})
        except MCPError as error:
            assert "401" in str(error) or "token" in str(error)
        assert refused is None or refused.is_error, refused and words(refused)
    await served.until(lambda: "ann" not in served.here())
