"""What an agent can read, and the prompts that are equipped for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from sshwarma.mcp.server import resources
from sshwarma.world.errors import NotFound
from support.mcp_server import Served


async def test_rooms_namespaces_and_things_are_listed(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/create vault")
    await served.do("ben", "/room private", room="vault")
    await served.do("ben", "/put prompt:style = Be brief.", room="lobby")
    await served.do("ann", "/put me:todo = water the plants")
    await served.do("ben", "/put me:diary = secret")
    await served.tool("git", "commit")
    async with served.client(token, mode) as client:
        listed = {str(one.uri): one for one in (await client.list_resources()).resources}
        templates = (await client.list_resource_templates()).resource_templates
    assert list(listed) == [
        "room://git",
        "room://global",
        "room://home",
        "room://lobby",
        "room://memory",
        "room://sshwarma",
        "room://toolsets",
        "room://workspace",
        "thing://lobby/prompt%3Astyle",
        "thing://me/todo",
    ]
    assert listed["room://git"].meta == {"available": True, "loaded": False}
    assert [one.uri_template for one in templates] == [
        "room://{room}", "room://{room}/log", "row://{room}/{seq}", "row://{room}/{seq}/{number}", "thing://{bag}/{name}",
        "memory://{memory}", "memory://{memory}/{key}",
    ]  # fmt: skip


async def test_resources_are_read_as_text_and_json(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/describe Soft chairs.")
    await served.do("ben", "/put note = a\nb")
    await served.do("ben", "/link docs https://example.org/")
    await served.do("ben", "hello \x1b[31mred")
    seq = (await served.world.last_rows("lobby", 1))[-1].seq
    await served.tool("git", "commit")
    async with served.client(token, mode) as client:

        async def read(uri: str) -> tuple[str, object]:
            contents = (await client.read_resource(uri)).contents
            assert {str(one.uri) for one in contents} == {uri}
            text = contents[0].text
            return text, json.loads(contents[1].text) if len(contents) > 1 else None

        text, seen = await read("room://lobby")
        assert "Soft chairs." in text
        assert isinstance(seen, dict)
        assert seen["description"] == "Soft chairs."
        assert [who["name"] for who in seen["here"]] == ["ann"]
        text, log = await read("room://lobby/log")
        assert isinstance(log, dict)
        assert "[31mred" in text and "\x1b" not in text
        said = next(row for row in log["rows"] if row["seq"] == seq)
        assert (said["who"], said["text"]) == ("ben", "hello \x1b[31mred")
        _, row = await read(f"row://lobby/{seq}")
        assert row == {"rows": [said]}
        assert await read("thing://lobby/note") == ("a\nb", None)
        assert await read("thing://lobby/docs") == ("https://example.org/", None)
        text, space = await read("room://git")
        assert isinstance(space, dict)
        assert space["namespace"]["available"] is True, space
        assert [tool["name"] for tool in space["tools"]] == ["git:commit"]
        assert "git.commit" in text


UNREADABLE = [
    "room://nowhere", "room://vault", "room://vault/log", "row://vault/1", "thing://vault/plan",
    "thing://lobby/nothing", "thing://me/diary", "row://lobby/999999", "row://lobby/x",
    "room://lobby/else", "room://", "room://lobby/", "rubbish", "file:///etc/passwd",
    "thing://lobby/../home/note", "room://%00", "room://" + "x" * 2000, "row://lobby/9999999999999999",
    "thing://agents/ann", "thing://world/agents", "room://directs",
]  # fmt: skip


async def test_unreadable_resource_is_not_found(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/create vault")
    await served.do("ben", "/room private", room="vault")
    await served.do("ben", "/put plan = secret", room="vault")
    await served.do("ben", "/put me:diary = secret")
    await served.do("ben", "/tell ann a secret")
    async with served.client(token, mode) as client:
        for uri in UNREADABLE:
            with pytest.raises(MCPError, match=r"Unknown") as caught:
                await client.read_resource(uri)
            assert caught.value.code == -32602, uri
            assert caught.value.data == {"uri": uri}
            assert "secret" not in str(caught.value)
        await served.do("ben", "/room invite", room="vault")
        with pytest.raises(MCPError, match="needs the enter right in vault"):
            await client.read_resource("room://vault/log")
        await served.do("ben", "/room member ann", room="vault")
        assert (await client.read_resource("thing://vault/plan")).contents[0].text == "secret"


def test_resource_uri_round_trips() -> None:
    for bag, name in (("lobby", "prompt:style"), ("me", "a b/c%?#"), ("den", "é")):
        place = resources.parse_uri(resources.make_uri("thing", bag, name))
        assert (place.bag, place.name) == (bag, name)
    with pytest.raises(NotFound):
        resources.parse_uri("thing://a/b/c")


async def test_equipped_prompts_are_listed_with_their_arguments(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/put prompt:sum = Summarise {room} for {who}. Not {This} or {}.")
    await served.do("ben", "/put prompt:unused = Nobody sees this.")
    await served.do("ben", "/equip room prompt:sum")
    await served.do("ann", "/put me:prompt:mine = Mine.")
    await served.do("ann", "/equip me prompt:mine")
    async with served.client(token, mode) as client:
        listed = (await client.list_prompts()).prompts
        assert [one.name for one in listed] == ["mine", "sum"]
        assert all(one.description for one in listed)
        words = [(one.name, one.required) for one in listed[1].arguments or []]
        assert words == [("room", True), ("who", True)]
        filled = await client.get_prompt("sum", {"room": "the {who} room", "who": "ben"})
        assert [(one.role, one.content.text) for one in filled.messages] == [
            ("user", "Summarise the {who} room for ben. Not {This} or {}.")
        ]
        with pytest.raises(MCPError, match="The prompt sum needs who"):
            await client.get_prompt("sum", {"room": "lobby"})
        with pytest.raises(MCPError, match="Prompt unused is not equipped here"):
            await client.get_prompt("unused", {})


async def test_resource_names_are_completed(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben", role="owner")
    await served.do("ben", "/create vault")
    await served.do("ben", "/room private", room="vault")
    await served.do("ann", "/put me:todo = x")
    await served.do("ann", "/put me:notes = x")
    async with served.client(token, mode) as client:
        room = ResourceTemplateReference(type="ref/resource", uri="room://{room}")
        thing = ResourceTemplateReference(type="ref/resource", uri="thing://{bag}/{name}")
        prompt = PromptReference(type="ref/prompt", name="sum")

        async def completes(ref: Any, name: str, start: str, **context: str) -> list[str]:
            argument = {"name": name, "value": start}
            found = await client.complete(ref, argument, context_arguments=context or None)
            return list(found.completion.values)

        assert await completes(room, "room", "") == ["home", "lobby"]
        assert await completes(room, "room", "v") == []
        assert await completes(thing, "name", "t", bag="me") == ["todo"]
        assert await completes(thing, "bag", "lo") == ["lobby"]
        assert await completes(prompt, "who", "b") == ["ben"]
        assert await completes(prompt, "nonsense", "b") == []
