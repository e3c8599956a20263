"""Requests that last: their maker may lose the right to them while they run.

The right may also end before their input is whole.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sshwarma.admin import operations
from sshwarma.tools.provider import ToolResult
from sshwarma.web import api, request_body
from sshwarma.world import tokens
from sshwarma.world.bearer import authenticate_bearer
from sshwarma.world.caller import Caller
from sshwarma.world.databases import Location
from sshwarma.world.errors import Unavailable, WorldError
from sshwarma.world.row import Row
from sshwarma.world.things import Thing
from support.mcp_server import Served, serving
from support.services import services_in

pytestmark = pytest.mark.process


@pytest.fixture
async def served(database: Location) -> AsyncIterator[Served]:
    async with serving(database) as made:
        yield made


class Post:
    """A POST to the API, sent in parts."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def begin(cls, served: Served, path: str, token: str, length: int) -> Post:
        """Send the head; return when the server asks for the body."""
        port = int(served.url.rpartition(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20) == (
            b"HTTP/1.1 100 Continue\r\n\r\n"
        )
        return cls(reader, writer)

    @classmethod
    async def whole(
        cls, served: Served, verb: str, token: str, room: str = "", **given: Any
    ) -> Post:
        """Send a request with its body."""
        body = json.dumps(given).encode()
        where = f"?room={room}" if room else ""
        made = await cls.begin(served, f"/api/v1/verbs/{verb}{where}", token, len(body))
        made.writer.write(body)
        return made

    async def answer(self) -> tuple[int, Any]:
        """The status and the body of the answer."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)
        lines = head.lower().split(b"\r\n")
        length = next(line for line in lines if line.startswith(b"content-length"))
        content = await self.reader.readexactly(int(length.partition(b":")[2]))
        self.close()
        return int(head.split()[1]), json.loads(content)

    def close(self) -> None:
        self.writer.close()


async def revoke(served: Served, name: str) -> None:
    """Revoke all tokens of an agent."""
    for token in await operations.run_operation(served.world, "token_list", {"name": name}):
        await operations.run_operation(served.world, "token_revoke", {"token_id": token["id"]})


async def fail_to_read(query: Any) -> Any:
    raise Unavailable("The database cannot be read.")


async def rows_of(served: Served, room: str, kind: str) -> list[Row]:
    found = await served.world.last_rows((await served.world.find_room(room)).id, 100)
    return [row for row in found if row.kind == kind]


class Waiting:
    """A tool that does not end by itself."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, *_: Any) -> ToolResult:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return ToolResult("done")


async def waiting_tool(served: Served, room: str = "lobby") -> Waiting:
    made = Waiting()
    room_id = (await served.world.find_room(room)).id
    await served.equip(room_id, await served.tool("slow", "wait", lambda *_: made()))
    return made


async def say_slowly(served: Served, token: str, text: str, room: str = "") -> tuple[Post, bytes]:
    """A request to say something, of which one byte is sent, and the rest of it."""
    body = json.dumps({"text": text}).encode()
    where = f"?room={room}" if room else ""
    post = await Post.begin(served, f"/api/v1/verbs/say{where}", token, len(body))
    post.writer.write(body[:1])
    return post, body[1:]


async def test_a_token_revoked_while_the_body_comes_is_no_good(served: Served) -> None:
    post, rest = await say_slowly(served, await served.newcomer("ann"), "after it")
    await revoke(served, "ann")
    post.writer.write(rest)
    status, answer = await post.answer()
    assert (status, answer["error"]) == (401, "unauthorized")
    assert await rows_of(served, "lobby", "chat") == []


async def test_an_agent_disabled_while_the_body_comes_does_nothing(served: Served) -> None:
    post, rest = await say_slowly(served, await served.newcomer("ann"), "after it")
    await operations.run_operation(served.world, "agents_disable", {"name": "ann"})
    post.writer.write(rest)
    assert (await post.answer())[0] == 401
    assert await rows_of(served, "lobby", "chat") == []


async def test_a_role_lost_while_the_body_comes_is_lost(served: Served) -> None:
    token = await served.newcomer("ann", "admin")
    body = b'{"days": 30}'
    post = await Post.begin(served, "/api/v1/verbs/gc_stale", token, len(body))
    post.writer.write(body[:1])
    await operations.run_operation(served.world, "agents_role", {"name": "ann", "role": "guest"})
    post.writer.write(body[1:])
    assert (await post.answer())[0] == 403


async def test_what_was_begun_in_a_closed_room_is_said_nowhere(served: Served) -> None:
    await served.agent("olga", "owner")
    token = await served.newcomer("ann")
    await served.do("olga", "/create den")
    await served.do("ann", "/join den")
    post, rest = await say_slowly(served, token, "for the den alone")
    await served.do("olga", "/room private", "den")
    post.writer.write(rest)
    assert (await post.answer())[0] == 403
    assert await rows_of(served, "den", "chat") == await rows_of(served, "lobby", "chat") == []


@pytest.mark.parametrize("ended_by", ["revoked", "disabled"])
async def test_a_call_ends_with_the_access_that_began_it(served: Served, ended_by: str) -> None:
    tool = await waiting_tool(served)
    post = await Post.whole(served, "run", await served.newcomer("ann"), name="slow:wait")
    await asyncio.wait_for(tool.started.wait(), 20)
    if ended_by == "revoked":
        await revoke(served, "ann")
    else:
        await operations.run_operation(served.world, "agents_disable", {"name": "ann"})
    status, answer = await post.answer()
    assert (status, answer["error"]) == (401, "unauthorized")
    assert ended_by in answer["message"]
    assert tool.ended.is_set()
    assert [row.content for row in await rows_of(served, "lobby", "tool.result")] == []


async def test_a_revoked_token_ends_its_request_while_nothing_can_be_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = await waiting_tool(served)
    token = await served.newcomer("ann")
    post = await Post.whole(served, "run", token, name="slow:wait")
    await asyncio.wait_for(tool.started.wait(), 20)
    known = (await operations.run_operation(served.world, "token_list", {"name": "ann"}))[0]["id"]
    monkeypatch.setattr(served.world.store, "read", fail_to_read)
    await served.world.change(lambda tx: tokens.revoke_token(tx, known))
    status, answer = await post.answer()
    assert (status, answer["message"]) == (401, "The token was revoked.")
    assert tool.ended.is_set()


async def test_a_token_revoked_while_it_is_read_is_invalid(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await served.newcomer("ann")
    read = served.world.store.read

    async def read_then_revoke(query: Any) -> Any:
        found = await read(query)
        monkeypatch.setattr(served.world.store, "read", read)
        await revoke(served, "ann")
        return found

    monkeypatch.setattr(served.world.store, "read", read_then_revoke)
    assert await authenticate_bearer(served.world, f"Bearer {token}", "api", "") is None


async def test_a_token_that_expires_ends_its_request(served: Served) -> None:
    tool = await waiting_tool(served)
    await served.agent("ann")
    token = await served.token("ann", days=2 / 86_400)
    post = await Post.whole(served, "run", token, name="slow:wait")
    status, answer = await post.answer()
    assert (status, answer["message"]) == (401, "The token expired.")
    assert tool.ended.is_set()


async def test_another_token_of_the_agent_is_not_concerned(served: Served) -> None:
    tool = await waiting_tool(served)
    post = await Post.whole(served, "run", await served.newcomer("ann"), name="slow:wait")
    await asyncio.wait_for(tool.started.wait(), 20)
    other = await served.token("ann")
    listed = await operations.run_operation(served.world, "token_list", {"name": "ann"})
    await operations.run_operation(served.world, "token_revoke", {"token_id": listed[-1]["id"]})
    assert (await _refused(served, other))[0] == 401
    assert not tool.ended.is_set()
    post.close()
    await asyncio.wait_for(tool.ended.wait(), 20)


async def test_a_client_that_disconnects_ends_its_call(served: Served) -> None:
    tool = await waiting_tool(served)
    post = await Post.whole(served, "run", await served.newcomer("ann"), name="slow:wait")
    await asyncio.wait_for(tool.started.wait(), 20)
    post.close()
    await asyncio.wait_for(tool.ended.wait(), 20)
    await served.until(lambda: not served.world.open_requests.rooms_of(_id(served, "ann")))
    ended = [row for row in await served.world.last_rows("lobby", 2) if row.kind != "tool.call"]
    assert [row.content for row in ended] == ["The call was stopped."]


def _id(served: Served, name: str) -> str:
    return served.world.agents.find(name).id


class Script:
    """A tool that calls another repeatedly, as a Lua script, whatever comes back."""

    def __init__(self, served: Served, calls: int) -> None:
        self._tools = services_in(served.world).tools
        self._calls = calls
        self.refused: list[str] = []

    async def __call__(self, caller: Caller, *_: Any) -> ToolResult:
        for number in range(self._calls):
            try:
                await self._tools.call(caller, "room:leaf", {"text": f"call {number}"})
            except WorldError as refused:
                self.refused.append(refused.message)
        return ToolResult("done")


async def den_with_script(served: Served, leaf: Any) -> Script:
    """A room with a tool, and a script that calls it three times."""
    await served.agent("olga", "owner")
    await served.do("olga", "/create den")
    script = Script(served, 3)
    den = (await served.world.find_room("den")).id
    tools = [await served.tool("room", "leaf", leaf), await served.tool("room", "script", script)]
    await served.equip(den, *tools)
    return script


@pytest.mark.parametrize("line", ["/ban ann", "/room private"])
async def test_a_script_ends_when_its_caller_is_removed(served: Served, line: str) -> None:
    called = asyncio.Event()
    ended = asyncio.Event()

    async def leaf(*_: Any) -> ToolResult:
        called.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ToolResult("a secret of the den")

    script = await den_with_script(served, leaf)
    token = await served.newcomer("ann")
    post = await Post.whole(served, "run", token, room="den", name="room:script")
    await asyncio.wait_for(called.wait(), 20)
    await served.do("olga", line, "den")
    status, answer = await post.answer()
    assert status == 403
    assert "den" in answer["message"]
    assert ended.is_set()
    assert script.refused == []
    calls = await rows_of(served, "den", "tool.call")
    assert [row.meta["tool"] for row in calls] == ["room:script", "room:leaf"]


async def test_a_script_that_catches_errors_calls_nothing_more_once_muted(served: Served) -> None:
    texts: list[str] = []

    async def leaf(_: Caller, __: Thing, arguments: dict[str, Any]) -> ToolResult:
        texts.append(arguments["text"])
        await served.do("olga", "/mute ann", "den")
        return ToolResult("heard")

    script = await den_with_script(served, leaf)
    token = await served.newcomer("ann")
    post = await Post.whole(served, "run", token, room="den", name="room:script")
    assert (await post.answer())[0] == 200
    assert texts == ["call 0"]
    assert [words.startswith("You are muted in den") for words in script.refused] == [True, True]
    assert len(await rows_of(served, "den", "tool.call")) == 2


async def test_a_role_lost_is_lost_to_a_script_that_runs(served: Served) -> None:
    async def leaf(*_: Any) -> ToolResult:
        await operations.run_operation(
            served.world, "agents_role", {"name": "ann", "role": "guest"}
        )
        return ToolResult("done")

    roles: list[str] = []

    async def script(caller: Caller, *_: Any) -> ToolResult:
        tools = services_in(served.world).tools
        await tools.call(caller, "room:leaf", {})
        await tools.call(caller, "room:role", {})
        return ToolResult("done")

    def role(caller: Caller, *_: Any) -> ToolResult:
        roles.append(caller.agent.role)
        return ToolResult("done")

    made = [
        await served.tool("room", name, does)
        for name, does in (("leaf", leaf), ("role", role), ("script", script))
    ]
    await served.equip("lobby", *made)
    post = await Post.whole(
        served, "run", await served.newcomer("ann", "admin"), name="room:script"
    )
    assert (await post.answer())[0] == 200
    assert roles == ["guest"]


async def test_a_body_that_does_not_come_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "HTTP_BODY_TIMEOUT_SECONDS", 0.3)
    token = await served.newcomer("ann")
    post = await Post.begin(served, "/api/v1/verbs/look", token, 10)
    status, answer = await post.answer()
    assert (status, answer["error"]) == (408, "timed_out")
    assert await asyncio.wait_for(post.reader.read(), 20) == b""  # and the connection ends


async def test_open_requests_of_an_agent_have_a_limit(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "MAX_API_REQUESTS_PER_AGENT", 3)
    ann, ben = await served.newcomer("ann"), await served.newcomer("ben")
    held = [await Post.begin(served, "/api/v1/verbs/look", ann, 2) for _ in range(3)]
    status, answer = await _refused(served, ann)
    assert (status, answer["message"]) == (429, "Too many open requests (limit 3).")
    assert (await (await Post.whole(served, "look", ben)).answer())[0] == 200
    for post in held:
        post.writer.write(b"{}")
        assert (await post.answer())[0] == 200
    assert (await (await Post.whole(served, "look", ann)).answer())[0] == 200


async def _refused(served: Served, token: str) -> tuple[int, Any]:
    """The answer to a request that is refused before its body is read."""
    port = int(served.url.rpartition(":")[2].partition("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"POST /api/v1/verbs/look HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        "Content-Length: 2\r\n\r\n{}".encode()
    )
    return await Post(reader, writer).answer()
