"""MCP over ssh with the stock client: `ssh host mcp` as a stdio server."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from support.driver import Person, Server
from support.driver.person import CLEAN
from support.node import inspector

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
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int, name: str, **arguments: object) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def lines(*messages: object) -> bytes:
    return b"".join(
        message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        for message in messages
    )


@asynccontextmanager
async def over_ssh(person: Person, mode: str, **more: Any) -> AsyncIterator[Client]:
    """The SDK's client with the stock ssh client as its child."""
    program, *arguments = [*person.ssh(), "mcp"]
    server = StdioServerParameters(command=program, args=arguments, env=CLEAN)
    async with Client(stdio_client(server), mode=mode, **more) as client:
        yield client


async def test_client_needs_only_an_ssh_key(alice: Person, room: str, mode: str) -> None:
    async with over_ssh(alice, mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "look" in names and "sshwarma.go" in names and "inventory_equip" in names
        await client.call_tool("join", {"room": room})
        seen = (await client.call_tool("look", {})).structured_content
        assert seen["name"] == room
        assert [(who["name"], who["door"]) for who in seen["here"]] == [(alice.name, "mcp")]
        said = await client.call_tool("say", {"text": "from over there"})
        assert not said.is_error
    assert "from over there" in alice.run("history").out


async def test_agent_is_present_and_receives_events(
    alice: Person, bob: Person, room: str, mode: str
) -> None:
    async with over_ssh(alice, mode) as client:
        await client.call_tool("join", {"room": room})
        cursor = (await client.call_tool("wait_events", {"timeout": 0})).structured_content[
            "cursor"
        ]
        loop = asyncio.get_running_loop()
        waits = asyncio.create_task(
            client.call_tool("wait_events", {"cursor": cursor, "timeout": 30})
        )
        listed = await loop.run_in_executor(None, bob.json, "who")
        assert (alice.name, "mcp") in [(who["name"], who["door"]) for who in listed["people"]]
        await loop.run_in_executor(None, bob.does, f"say --room {room} @{alice.name} hello")
        events = (await waits).structured_content["events"]
        heard = [
            (event["speaker"]["name"], event["mention"])
            for event in events
            if event.get("kind") == "chat"
        ]
        assert heard == [(bob.name, True)]

    def gone() -> bool:
        return alice.name not in [who["name"] for who in bob.json("who")["people"]]

    async with asyncio.timeout(20):  # a client that does not end in time is killed by the SDK
        while not await loop.run_in_executor(None, gone):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.05)


def test_pending_requests_are_answered_after_eof(alice: Person) -> None:
    asked = lines(HELLO, READY, b"\n", call(2, "who"), call(3, "say", text="hi"), b"rubbish\n")
    done = alice.run("mcp", asked)
    assert done.status == 0 and done.err == ""
    answers = [json.loads(line) for line in done.lines]
    assert {answer["id"] for answer in answers} == {1, 2, 3, None}
    wrong = next(answer for answer in answers if answer["id"] is None)
    assert wrong["error"]["code"] == -32700
    assert not any(answer.get("result", {}).get("isError") for answer in answers)


def test_own_change_is_notified_before_its_result(alice: Person, room: str) -> None:
    alice.does("namespace new early")
    alice.does("tool new early:bird = return 1")
    with subprocess.Popen(
        [*alice.ssh(), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=CLEAN
    ) as program:
        assert program.stdin and program.stdout
        program.stdin.write(lines(HELLO, READY))
        for number, name in enumerate(("load_room", "unload_room"), 2):
            program.stdin.write(lines(call(number, name, room="early")))
            program.stdin.flush()
            received: list[dict[str, Any]] = []
            while not received or received[-1].get("id") != number:
                received.append(json.loads(program.stdout.readline()))
            methods = [message.get("method") for message in received]
            assert methods[-2:] == ["notifications/tools/list_changed", None], received
        program.stdin.close()


def test_last_line_without_newline_and_empty_input_are_accepted(alice: Person) -> None:
    done = alice.run("mcp", lines(HELLO).rstrip(b"\n"))
    assert json.loads(done.out)["result"]["serverInfo"]["name"] == "sshwarma"
    assert alice.run("mcp", b"").status == 0


def test_line_over_the_limit_is_refused(alice: Person) -> None:
    done = alice.run("mcp", lines(HELLO, b"x" * 5_000_000, b"\n", call(2, "who")))
    answers = {answer["id"]: answer for answer in map(json.loads, done.lines)}
    assert set(answers) == {1, None}, "in any order, and nothing after it"
    assert "at most 4194304 bytes" in answers[None]["error"]["message"]


def test_message_with_too_many_values_is_refused_alone(alice: Person) -> None:
    many = b'{"jsonrpc":"2.0","method":"x","params":{"x":[' + b"[]," * 290_000 + b"1]}}\n"
    done = alice.run("mcp", lines(HELLO, READY, many, call(2, "who")))
    answers = {answer["id"]: answer for answer in map(json.loads, done.lines) if "id" in answer}
    refusal = "The message has too many values (limit 100000)."
    assert answers[None]["error"]["message"] == refusal
    assert "result" in answers[2], "the connection goes on"


def test_long_lines_pass_in_both_directions(alice: Person, room: str) -> None:
    text = "long " * 3_000
    says = [call(number, "say", text=text) for number in range(10, 20)]
    too_long = call(3, "say", text="long " * 150_000)
    done = alice.run("mcp", lines(HELLO, READY, call(2, "join", room=room), too_long, *says))
    answers = {answer["id"]: answer for answer in map(json.loads, done.lines)}
    assert "text: must have at most 16384 bytes" in answers[3]["result"]["content"][0]["text"]
    assert answers[19]["result"]["structuredContent"]["text"] == text.rstrip()
    done = alice.run("mcp", lines(HELLO, READY, call(2, "history", n=20)))
    answers = {answer["id"]: answer for answer in map(json.loads, done.lines)}
    entries = answers[2]["result"]["structuredContent"]["entries"]
    assert [entry["text"] for entry in entries].count(text.rstrip()) == 10


def test_client_that_does_not_read_blocks_nobody(world: Server, alice: Person, bob: Person) -> None:
    many = [call(number, "rooms") for number in range(2, 400)]
    with subprocess.Popen(
        [*alice.ssh(), "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=CLEAN
    ) as slow:
        assert slow.stdin and slow.stdout
        slow.stdin.write(lines(HELLO, READY, *many))
        slow.stdin.flush()
        first = slow.stdout.readline()
        assert json.loads(first)["id"] == 1
        assert bob.run("who").status == 0
        slow.stdin.close()
        rest = [json.loads(line)["id"] for line in slow.stdout]
        assert sorted(rest) == list(range(2, 400))
        assert slow.wait(20) == 0


def test_mcp_is_also_an_ssh_subsystem(alice: Person) -> None:
    done = subprocess.run(
        [*alice.ssh("-s"), "mcp"],
        input=lines(HELLO),
        capture_output=True,
        env=CLEAN,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["id"] == 1


def test_interactive_terminal_is_refused_with_an_explanation(alice: Person) -> None:
    done = alice.run("mcp", b"", "-tt")
    assert done.status == 1
    assert "To list MCP servers: ssh HOST mcp list" in done.out + done.err


def test_unknown_key_is_refused(world: Server) -> None:
    stranger = world.stranger("nobody-known")
    done = stranger.run("mcp", lines(HELLO), "-oBatchMode=yes")
    assert done.status == 255
    assert done.out == ""


async def test_disabling_an_agent_ends_its_connection(world: Server, person: Any) -> None:
    someone = person("short")
    loop = asyncio.get_running_loop()
    async with over_ssh(someone, "auto") as client:
        assert not (await client.call_tool("look", {})).is_error
        waits = asyncio.create_task(client.call_tool("wait_events", {"timeout": 30}))
        await loop.run_in_executor(None, lambda: world.operate("agents_disable", name=someone.name))
        async with asyncio.timeout(20):
            # The call in progress may still get the reason.
            with pytest.raises(MCPError, match=r"closed|^Your account was disabled by an admin\."):
                await waits
            with pytest.raises(MCPError, match="closed"):
                await client.call_tool("look", {})

    def connected() -> bool:
        listed = world.operate("agents_list")
        return someone.name in [agent["name"] for agent in listed if agent["connections"]]

    async with asyncio.timeout(20):
        while connected():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)


async def test_server_shutdown_ends_connections_and_clients_can_reconnect(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    ann, ben = server.person("ann"), server.person("ben")
    ann.does("create den")
    token = server.cli(
        "token", "new", "ben", "--label", "laptop", "--scope", "build"
    ).stdout.strip()
    loop = asyncio.get_running_loop()
    async with (
        over_ssh(ann, "auto") as one,
        httpx2.AsyncClient(
            verify=False, headers={"Authorization": f"Bearer {token}"}, timeout=20
        ) as http,
        # In the older era a client always has a stream open.
        Client(
            streamable_http_client(f"http://{server.http}/mcp", http_client=http), mode="legacy"
        ) as other,
    ):
        await one.call_tool("join", {"room": "den"})
        calls = [
            asyncio.create_task(client.call_tool("wait_events", {"timeout": 30}))
            for client in (one, other)
        ]
        assert await loop.run_in_executor(None, server.stop) == 0
        ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)
        assert all(isinstance(end, MCPError) or end.is_error for end in ended)
    await loop.run_in_executor(None, server.start)
    async with over_ssh(ann, "auto") as client:
        seen = (await client.call_tool("look", {})).structured_content
        assert seen["name"] == "den", "an agent is where it was"
    assert ben.run("who").status == 0


def test_inspector_works_over_http_and_ssh(world: Server, alice: Person, tmp_path: Path) -> None:
    token = alice.json("token new inspector --scope build")["token"]
    program = [*alice.ssh(), "mcp"]
    bearer = ["--header", f"Authorization: Bearer {token}"]
    over_http = [f"http://{world.http}/mcp", "--transport", "http", *bearer]
    for target in (
        [*over_http, "--protocol-era", "legacy"],
        [*over_http, "--protocol-era", "modern"],
        _bridge(tmp_path, program),
    ):
        listed = inspector(tmp_path, *target, "--method", "tools/list", "--strict")
        assert listed.returncode == 0, listed.stdout[-3000:] + listed.stderr[-3000:]
        assert '"wait_events"' in listed.stdout
        called = inspector(
            tmp_path, *target, "--method", "tools/call", "--tool-name", "say",
            "--tool-arg", "text=hello from the inspector", "--format", "json", "-q",
        )  # fmt: skip
        assert called.returncode == 0, called.stdout[-2000:] + called.stderr[-2000:]
        assert "hello from the inspector" in called.stdout


def _bridge(tmp_path: Path, program: list[str]) -> list[str]:
    """A program that needs no arguments: the ssh client with all of them."""
    bridge = tmp_path / "bridge"
    quoted = " ".join(f"'{word}'" for word in program)
    bridge.write_text(f"#!/bin/sh\nexec {quoted}\n")
    bridge.chmod(0o755)
    return [str(bridge)]
