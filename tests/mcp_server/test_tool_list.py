"""The list of tools every client pays for: short, no duplicates, clients' words."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from typing import Any

import rfc8785

from mcp_server.test_tools import names
from sshwarma.tools.provider import ToolResult
from support.mcp_server import Served, words

MAX_LIST_TOKENS = 4_300
"""Tokens that the list of a new agent may cost, whatever spaces a client puts into the JSON. A
fifth is for the memory of the project."""


def count_tokens(text: str) -> tuple[int, str]:
    """Tokens of a text by o200k, or an estimate of 4 characters a token.

    tiktoken would fetch a vocabulary that is not in its cache.
    """
    if importlib.util.find_spec("tiktoken") is None or "TIKTOKEN_CACHE_DIR" not in os.environ:
        return len(text) // 4, "estimate"
    tiktoken: Any = importlib.import_module("tiktoken")
    return len(tiktoken.get_encoding("o200k_base").encode(text)), "o200k"


async def test_list_of_a_new_agent_costs_few_tokens(served: Served, mode: str) -> None:
    token = await served.newcomer("ann")
    async with served.client(token, mode) as client:
        listed = (await client.list_tools()).tools
        instructions = client.instructions or ""
    tools = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in listed]
    tokens, how = count_tokens(json.dumps(tools))
    assert tokens <= MAX_LIST_TOKENS, f"{tokens} tokens ({how})"
    assert 3 <= len(instructions.strip().splitlines()) <= 6
    for name in ("find_rooms", "load_room", "use_tool", "wait_events"):
        assert name in instructions


async def test_no_tool_is_listed_twice(served: Served, mode: str) -> None:
    token = await served.newcomer("ann", role="owner")
    await served.do("ann", "/equip room sshwarma:*")
    async with served.client(token, mode) as client:
        listed = await names(client)
        bare = [name.rpartition(".")[2] for name in listed]
        assert len(set(bare)) == len(bare)
        assert not {"sshwarma.look", "sshwarma.inventory", "global.load_room"} & set(listed)
        for name in ("sshwarma.look", "sshwarma:inventory", "global.list_rooms"):
            assert not (await client.call_tool(name, {})).is_error, name


async def test_texts_for_clients_speak_of_no_commands(served: Served) -> None:
    token = await served.newcomer("ann", role="owner")
    await served.do("ann", "/equip room sshwarma:*")
    async with served.client(token) as client:
        listed = (await client.list_tools()).tools
        known = {tool.name for tool in listed}
        texts = [client.instructions or "", *(tool.model_dump_json() for tool in listed)]
    for text in texts:
        assert not re.search(r"(^|\s)/[a-z]+", text), text
        assert not re.search(r"\b(slash|key press|typed?|Tab|Enter)\b", text.split("{")[0]), text
    for tool in listed:
        if "." not in tool.name:
            named = set(re.findall(r"\b[a-z]+_[a-z]+\b", tool.description or ""))
            assert named <= known, tool.description


async def test_load_room_names_tools_as_they_are_listed(served: Served, mode: str) -> None:
    token = await served.newcomer("ann", role="owner")
    await served.spaced("git", "status", lambda *_: ToolResult("done"))
    await served.spaced("git.branch", "new", lambda *_: ToolResult("done"))
    await served.do("ann", "/namespace set git.branch load_with_parent on")
    async with served.client(token, mode) as client:
        loaded = await client.call_tool("load_room", {"room": "git"})
        assert loaded.structured_content["tools"] == ["git.status", "git.branch.new"]
        assert loaded.structured_content["changed"] == ["git", "git.branch"]
        assert "git.branch.new" in words(loaded)
        assert set(loaded.structured_content["tools"]) <= set(await names(client))


async def test_every_listed_schema_survives_canonical_json(served: Served) -> None:
    token = await served.newcomer("ann", role="owner")
    await served.do("ann", "/equip room sshwarma:*")
    async with served.client(token) as client:
        listed = (await client.list_tools()).tools
    for tool in listed:
        rfc8785.dumps(tool.model_dump(by_alias=True, mode="json", exclude_none=True))
