"""Those who should not come in, and those who ask for too much.

Longer than 400 lines, because it is one list of attacks on one door.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from sshwarma.admin import operations
from sshwarma.mcp.server import clients, endpoint
from sshwarma.tools.provider import ToolResult
from sshwarma.verbs import line_rate
from sshwarma.world import tokens
from sshwarma.world.bearer import INVALID_BEARER
from sshwarma.world.errors import Unavailable
from support.mcp_server import Served, serving, words

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


async def post(served: Served, body: Any, token: str = "", **headers: str) -> httpx2.Response:
    """One request, as it is."""
    sent = {**HEADERS, **({"Authorization": f"Bearer {token}"} if token else {}), **headers}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with httpx2.AsyncClient(verify=False, timeout=20) as http:
        return await http.post(served.url, content=content, headers=sent)


async def session(served: Served, token: str) -> str:
    """The id of a session of the older era that was begun with a token."""
    answer = await post(served, HELLO, token)
    assert answer.status_code == 200, answer.text
    return answer.headers["mcp-session-id"]


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT", "OPTIONS"])
async def test_request_without_a_valid_token_is_refused(served: Served, method: str) -> None:
    for sent in ("", "Bearer", "Bearer nonsense", "Bearer swt_nonsense", "Basic YTpi", "swt_x"):
        headers = {**HEADERS, **({"Authorization": sent} if sent else {})}
        async with httpx2.AsyncClient(verify=False, timeout=20) as http:
            answer = await http.request(method, served.url, json=HELLO, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["error"]["message"].endswith(".")
        assert answer.json()["error"]["message"].startswith(INVALID_BEARER)
    assert served.here() == {}


async def test_token_of_a_disabled_agent_is_refused(served: Served) -> None:
    token = await served.newcomer("ann")
    await operations.run_operation(served.world, "agents_disable", {"name": "ann"})
    assert (await post(served, HELLO, token)).status_code == 401


async def test_foreign_origin_or_host_is_refused(served: Served) -> None:
    token = await served.newcomer("ann")
    for origin in ("http://evil.example", "http://127.0.0.1.evil.example", "null"):
        assert (await post(served, HELLO, token, Origin=origin)).status_code == 403, origin
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        assert (await post(served, HELLO, token, Host=host)).status_code == 421, host
    assert (await post(served, HELLO, token, Origin="http://localhost:3000")).status_code == 200
    modern = {"MCP-Protocol-Version": "2026-07-28"}
    refused = await post(served, HELLO, token, Origin="http://evil.example", **modern)
    assert refused.status_code == 403


async def test_body_over_the_limit_is_refused(served: Served) -> None:
    token = await served.newcomer("ann")
    for headers in ({}, {"MCP-Protocol-Version": "2026-07-28"}):
        answer = await post(served, b"[" + b" " * 5_000_000 + b"]", token, **headers)
        assert answer.status_code == 413
    assert (await post(served, b"x" * 5_000_000)).status_code == 401


async def test_body_with_too_many_values_is_refused(served: Served) -> None:
    token = await served.newcomer("ann")
    for headers in ({}, {"MCP-Protocol-Version": "2026-07-28"}):
        answer = await post(served, b"[" + b"{}," * 300_000 + b"1]", token, **headers)
        assert answer.status_code == 413
        expected = "The request body has too many values (limit 100000)."
        assert answer.json()["error"]["message"] == expected
    assert (await post(served, HELLO, token)).status_code == 200


RUBBISH = [
    b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"[" * 100_000,
    b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', b'{"jsonrpc": "2.0", "id": {}}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]}',
    b'{"id": ' + b"9" * 5000 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", "1999-01-01", "\u00fc"])
async def test_malformed_request_is_a_client_error(served: Served, version: str) -> None:
    token = await served.newcomer("ann")
    sent = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    sent += [
        (b"MCP-Protocol-Version", version.encode("latin-1")),
        (b"Authorization", f"Bearer {token}".encode()),
    ]
    for body in RUBBISH:
        async with httpx2.AsyncClient(verify=False, timeout=20) as http:
            answer = await http.post(served.url, content=body, headers=sent)
        assert 400 <= answer.status_code < 500, (body[:40], answer.status_code, answer.text)
        error = answer.json()["error"]
        assert error["code"] < 0
        assert len(error["message"]) < 200 and "\n" not in error["message"]
        assert "pydantic" not in answer.text and "validation error" not in answer.text
    assert (await post(served, HELLO, token)).status_code == 200


async def test_a_malformed_message_is_refused_in_one_sentence(served: Served) -> None:
    token = await served.newcomer("ann")
    for body, code, message in (
        ({"a": 1}, -32600, "The request body is not a JSON-RPC 2.0 message."),
        (b"{", -32700, "The request body is not JSON."),
    ):
        answer = await post(served, body, token)
        assert answer.json()["error"] == {"code": code, "message": message}
    wrong = await post(served, HELLO, token, **{"Content-Type": "text/plain"})
    assert wrong.headers["content-type"] == "application/json"
    assert wrong.json()["error"]["message"] == "Invalid Content-Type header."


async def test_session_is_bound_to_its_token(served: Served) -> None:
    ann, eve = await served.newcomer("ann"), await served.newcomer("eve")
    other = await served.token("ann", scope="read")
    begun = await session(served, ann)
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    say = {
        "jsonrpc": "2.0",
        "id": 3,
        "method": "tools/call",
        "params": {"name": "say", "arguments": {"text": "I am ann"}},
    }
    for thief in (eve, other):
        for body in (listing, say):
            answer = await post(served, body, thief, **{"Mcp-Session-Id": begun})
            assert answer.status_code == 404
        async with httpx2.AsyncClient(verify=False, timeout=20) as http:
            headers = {"Authorization": f"Bearer {thief}", "Mcp-Session-Id": begun, **HEADERS}
            assert (await http.delete(served.url, headers=headers)).status_code == 404
            assert (await http.get(served.url, headers=headers)).status_code == 404
    assert (await post(served, listing, ann, **{"Mcp-Session-Id": begun})).status_code == 200
    assert not [row for row in await served.world.last_rows("lobby", 20) if row.kind == "chat"]


async def test_session_id_needs_a_token_and_must_exist(served: Served) -> None:
    token = await served.newcomer("ann")
    begun = await session(served, token)
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert (await post(served, listing, **{"Mcp-Session-Id": begun})).status_code == 401
    for wrong in ("0" * 32, "x" * 5000, "../..", "'"):
        answer = await post(served, listing, token, **{"Mcp-Session-Id": wrong})
        assert answer.status_code in (400, 404, 431)


async def test_revoked_token_ends_an_open_stream(served: Served) -> None:
    await served.agent("ann")
    token = await served.token("ann")
    begun = await session(served, token)
    headers = {"Authorization": f"Bearer {token}", "Mcp-Session-Id": begun, **HEADERS}
    async with (
        httpx2.AsyncClient(verify=False, timeout=20) as http,
        http.stream("GET", served.url, headers=headers) as stream,
    ):
        assert stream.status_code == 200
        found = await operations.run_operation(served.world, "token_list", {"name": "ann"})
        await operations.run_operation(served.world, "token_revoke", {"token_id": found[0]["id"]})
        async with asyncio.timeout(20):
            async for _ in stream.aiter_bytes():
                pass
    await served.until(lambda: "ann" not in served.here())
    assert (await post(served, HELLO, token)).status_code == 401


async def test_revoked_token_ends_an_open_stream_while_nothing_can_be_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.agent("ann")
    token = await served.token("ann")
    headers = {"Authorization": f"Bearer {token}", **HEADERS}
    headers["Mcp-Session-Id"] = await session(served, token)
    known = (await operations.run_operation(served.world, "token_list", {"name": "ann"}))[0]["id"]

    async def fail_to_read(query: Any) -> Any:
        raise Unavailable("The database cannot be read.")

    async with (
        httpx2.AsyncClient(verify=False, timeout=20) as http,
        http.stream("GET", served.url, headers=headers) as stream,
    ):
        assert stream.status_code == 200
        monkeypatch.setattr(served.world.store, "read", fail_to_read)
        await served.world.change(lambda tx: tokens.revoke_token(tx, known))
        async with asyncio.timeout(20):
            async for _ in stream.aiter_bytes():
                pass
    await served.until(lambda: "ann" not in served.here())


async def slow_post(
    served: Served, token: str, length: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The head of a request; returns when the server asks for the body."""
    port = int(served.url.rpartition(":")[2].partition("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = {**HEADERS, "Host": "127.0.0.1", "Authorization": f"Bearer {token}"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    writer.write(
        f"POST /mcp HTTP/1.1\r\n{lines}Content-Length: {length}\r\n"
        "Expect: 100-continue\r\n\r\n".encode()
    )
    assert b" 100 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    return reader, writer


async def test_a_token_revoked_while_a_body_comes_is_refused(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    await served.agent("ann")
    token = await served.token("ann")
    body = json.dumps(HELLO).encode()
    reader, writer = await slow_post(served, token, len(body))
    writer.write(body[:2])
    found = await operations.run_operation(served.world, "token_list", {"name": "ann"})
    await operations.run_operation(served.world, "token_revoke", {"token_id": found[0]["id"]})
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    assert head.startswith(b"HTTP/1.1 401 ")
    writer.close()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_body_that_does_not_come_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "HTTP_BODY_TIMEOUT_SECONDS", 0.3)
    reader, writer = await slow_post(served, await served.newcomer("ann"), 10)
    answer = await asyncio.wait_for(reader.read(), 20)
    assert answer.startswith(b"HTTP/1.1 408 ")
    writer.close()
    await served.until(lambda: all(not guest.connections for guest in served.guests))


async def test_client_that_hangs_up_in_its_body_is_no_error(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await slow_post(served, await served.newcomer("ann"), 100)
    writer.write(b"{")
    await writer.drain()
    writer.close()
    await served.until(lambda: all(not guest.connections for guest in served.guests))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_body_over_the_limit_is_refused_in_chunks_too(served: Served) -> None:
    token = await served.newcomer("ann")

    async def parts() -> Any:
        for _ in range(5):
            yield b" " * (1 << 20)

    async with httpx2.AsyncClient(verify=False, timeout=20) as http:
        headers = {**HEADERS, "Authorization": f"Bearer {token}"}
        answer = await http.post(served.url, content=parts(), headers=headers)
    assert answer.status_code == 413


async def test_request_over_the_rate_is_held_back(
    newborn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_rate, "RATE_WINDOW_SECONDS", 0.5)
    async with serving(tmp_path / "world.db", requests_per_10_seconds=5) as served:
        token = await served.newcomer("ann")
        answers = [await post(served, HELLO, token) for _ in range(12)]
        assert [answer.status_code for answer in answers] == [200] * 12


async def test_request_rate_is_limited_per_agent(
    newborn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MAX_REQUEST_WAIT_SECONDS", 0.05)
    async with serving(tmp_path / "world.db", requests_per_10_seconds=5) as served:
        token, other = await served.newcomer("ann"), await served.newcomer("ben")
        answers = [await post(served, HELLO, token) for _ in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
        assert "5 requests in 10 seconds" in answers[-1].json()["error"]["message"]
        assert int(answers[-1].headers["retry-after"]) > 0
        assert (await post(served, HELLO, other)).status_code == 200


async def test_chat_line_rate_is_limited(newborn: Path, tmp_path: Path) -> None:
    async with serving(tmp_path / "world.db", lines_per_10_seconds=3) as served:
        token = await served.newcomer("ann")
        async with served.client(token) as client:
            said = [await client.call_tool("say", {"text": f"line {n}"}) for n in range(5)]
            assert [one.is_error for one in said] == [False] * 3 + [True] * 2
            assert "At most 3 calls that change something in 10 seconds" in words(said[-1])
            assert not (await client.call_tool("look", {})).is_error


async def test_concurrent_calls_are_bounded(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENT_CALLS_PER_AGENT", 4)
    token = await served.newcomer("ann")
    go = asyncio.Event()

    async def wait(*_: Any) -> ToolResult:
        await go.wait()
        return ToolResult("done")

    await served.equip("lobby", await served.tool("t", "wait", wait))
    async with served.client(token) as client:
        calls = [asyncio.create_task(client.call_tool("t.wait", {})) for _ in range(4)]
        await served.until(lambda: sum(len(guest.calls) for guest in served.guests) == 4)
        result = await client.call_tool("t.wait", {})
        assert result.is_error and "Too many running calls (limit 4)" in words(result)
        go.set()
        assert not any(one.is_error for one in await asyncio.gather(*calls))
        assert not (await client.call_tool("t.wait", {})).is_error


@pytest.mark.parametrize("tool", ["t.echo", "use_tool"])
async def test_who_is_muted_says_nothing_by_a_call(served: Served, tool: str) -> None:
    await served.agent("olga", "owner")
    token = await served.newcomer("ann")
    await served.equip("lobby", await served.tool("t", "echo"))
    await served.do("olga", "/mute ann")
    given = {"text": "said by a muted agent"}
    asked = given if tool == "t.echo" else {"name": "t:echo", "arguments": given}
    async with served.client(token) as client:
        result = await client.call_tool(tool, asked)
        assert result.is_error and "You are muted in lobby" in words(result)
        assert not (await client.call_tool("look", {})).is_error
        assert not (await client.call_tool("history", {})).is_error
    said = [row.content for row in await served.world.last_rows("lobby", 50)]
    assert not [text for text in said if "said by a muted agent" in text]


async def test_agent_removed_from_a_room_loses_the_calls_of_its_client(served: Served) -> None:
    await served.agent("olga", "owner")
    token = await served.newcomer("ann")
    await served.do("olga", "/create den")
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait(*_: Any) -> ToolResult:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ToolResult("done")

    den = (await served.world.find_room("den")).id
    await served.equip(den, await served.tool("t", "wait", wait))
    async with served.client(token) as client:
        await client.call_tool("join", {"room": "den"})
        call = asyncio.create_task(client.call_tool("t.wait", {}))
        await asyncio.wait_for(started.wait(), 20)
        await served.do("olga", "/ban ann", "den")
        result = await asyncio.wait_for(call, 20)
        assert result.is_error and "You are banned from den" in words(result)
        assert ended.is_set()


@pytest.mark.parametrize("line", ["/room private", "/ban ann"])
async def test_a_wait_for_events_ends_with_the_reason_to_leave(served: Served, line: str) -> None:
    await served.agent("olga", "owner")
    token = await served.newcomer("ann")
    await served.do("olga", "/create den")
    async with served.client(token) as client:
        await client.call_tool("join", {"room": "den"})
        cursor = (await client.call_tool("wait_events", {"timeout": 0})).structured_content
        assert cursor is not None
        given = {"cursor": cursor["cursor"], "timeout": 30}
        wait = asyncio.create_task(client.call_tool("wait_events", given))
        await served.until(lambda: any(guest.calls for guest in served.guests))
        await served.do("olga", line, "den")
        result = await asyncio.wait_for(wait, 20)
        assert not result.is_error, words(result)
        assert result.structured_content is not None
        types = [event["type"] for event in result.structured_content["events"]]
        if "notice" not in types:  # the row that closes the room came first
            assert types == ["row"]
            given["cursor"] = result.structured_content["cursor"]
            result = await client.call_tool("wait_events", given)
            assert result.structured_content is not None
        assert result.structured_content["events"][-1]["type"] == "notice"
        assert result.structured_content["room"] == "lobby"


async def test_a_schema_that_costs_too_much_to_check_is_refused(served: Served) -> None:
    token = await served.newcomer("ann")
    branches = [*({"const": f"x{n}"} for n in range(300)), {"type": "integer"}]
    schema = {"type": "object", "properties": {"a": {"items": {"anyOf": branches}}}}
    await served.equip("lobby", await served.tool("t", "dear", input_schema=schema))
    async with served.client(token) as client:
        given = {"name": "t:dear", "arguments": {"a": [1] * 4_000}}
        result = await client.call_tool("use_tool", given)
        assert result.is_error and "checks against its schema (limit" in words(result)
        given["arguments"] = {"a": [1] * 20}
        assert not (await client.call_tool("use_tool", given)).is_error


async def test_concurrent_streams_are_bounded(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MAX_OPEN_REQUESTS_PER_AGENT", 3)
    token = await served.newcomer("ann")
    async with served.client(token) as client:
        waits = [
            asyncio.create_task(client.call_tool("wait_events", {"timeout": 30})) for _ in range(3)
        ]
        await served.until(lambda: sum(len(guest.connections) for guest in served.guests) == 3)
        answer = await post(served, HELLO, token)
        assert answer.status_code == 429
        assert "Too many open requests and streams (limit 3)" in answer.text
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    await served.until(lambda: all(not guest.connections for guest in served.guests))
    assert (await post(served, HELLO, token)).status_code == 200


async def test_the_least_recently_used_session_of_an_agent_makes_room(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """32 clients that crashed locked their agent out for half an hour."""
    monkeypatch.setattr(endpoint, "MAX_MCP_SESSIONS_PER_AGENT", 3)
    token, other = await served.newcomer("ann"), await served.newcomer("ben")
    begun = [await session(served, token) for _ in range(3)]
    others = await session(served, other)
    await _use_session(served, token, begun[0])
    newest = [await session(served, token) for _ in range(2)]
    statuses = [(await _use_session(served, token, one)) for one in (*begun, *newest)]
    assert statuses == [200, 404, 404, 200, 200]
    assert await _use_session(served, other, others) == 200
    assert max(guest.session_count for guest in served.guests) == 3


async def _use_session(served: Served, token: str, session_id: str) -> int:
    """Ask for the tools in a session; return the HTTP status."""
    async with httpx2.AsyncClient(verify=False, timeout=20) as http:
        headers = {"Authorization": f"Bearer {token}", "Mcp-Session-Id": session_id, **HEADERS}
        asked = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
        return (await http.post(served.url, headers=headers, json=asked)).status_code


async def test_control_characters_are_escaped_in_results(served: Served) -> None:
    token = await served.newcomer("ann")
    await served.agent("ben")
    await served.do("ben", "\x1b]0;owned\x07\x1b[2J")
    async with served.client(token) as client:
        for name in ("history", "look"):
            text = words(await client.call_tool(name, {}))
            assert "\x1b" not in text and "\x07" not in text


async def test_control_characters_are_escaped_in_errors(served: Served) -> None:
    token = await served.newcomer("ann")
    typed, shown = "\x1b[2J\x9b\u202e", "^[[2J<U+009B><U+202E>"
    async with served.client(token) as client:
        for name, given in (
            ("join", {"room": typed}),
            (typed, {}),
            ("look", {typed: 1}),
            ("use_tool", {"name": typed}),
        ):
            result = await client.call_tool(name, given)
            assert result.is_error
            assert shown in words(result), (name, words(result))
            assert not {"\x1b", "\x9b", "\u202e"} & {*words(result)}
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"sshwarma://{typed}")
        assert shown in str(caught.value)
