"""Failures of models: a killed server, a crowd that watches, keys never shown.

The server is killed during an answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import asyncssh
import pytest

from support.driver import Server
from support.driver.aimock import Mock, mocking
from support.driver.terminal_session import TerminalSession

KEY = "sk-hardship-0123456789abcdefgh"
FILED = "sk-filed-9876543210hgfedcba"

WATCHERS = 50
SECONDS = 100.0


def tale(name: str) -> str:
    return " ".join(f"{name}{number}" for number in range(60)) + f" the end of {name}"


TALES = ("ash", "birch", "cedar")

FIXTURES: list[dict[str, Any]] = [
    *(
        {
            "match": {"userMessage": "a tale", "model": name},
            "response": {"content": tale(name)},
            "latency": 25,
            "chunkSize": 7,
        }
        for name in TALES
    ),
    {
        "match": {"userMessage": "the locked door"},
        "response": {
            "status": 401,
            "error": {"message": f"Incorrect API key provided: {KEY}.", "type": "auth"},
        },
    },
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello."}},
    {
        "match": {"userMessage": "at length"},
        "response": {"content": "once upon a time " * 200},
        "latency": 40,
        "chunkSize": 5,
    },
]


@pytest.fixture(scope="module")
def mock() -> Iterator[Mock]:
    with mocking(FIXTURES) as made:
        yield made


def settings(mock: Mock, name: str, **more: Any) -> dict[str, Any]:
    address = {"base_url": f"{mock.url}/v1", "kind": "compatible"}
    return {"name": name, "model": name} | address | more


def test_answer_cut_by_kill_9_is_marked_and_the_next_request_is_valid(
    serve: Callable[..., Server], mock: Mock
) -> None:
    server = serve()
    boss = server.owner
    boss.does(f"model add teller compatible m --url {mock.url}/v1")
    screen = boss.sit()
    screen.enter("@teller speak at length")
    screen.wait_for("teller: once upon a time once")
    server.kill()
    screen.wait_for_end()
    server.start()
    kept = [(entry["who"], entry["text"]) for entry in boss.json("history 10")["entries"]]
    assert ("teller", "was cut off when the server stopped") in kept
    assert (boss.name, "@teller speak at length") in kept
    assert boss.run("stop").status == 1  # nothing is left running
    assert boss.run("@teller hello after all").out == "teller: Hello.\n"
    messages = mock.asked("hello after all")[-1]["body"]["messages"]
    assert "speak at length" in json.dumps(messages)
    roles = [message["role"] for message in messages]
    assert roles[0] == "system"
    assert roles[-1] == "user"
    assert all(one != other for one, other in itertools.pairwise(roles))
    boss.hang_up()


def test_api_key_is_not_in_database_log_or_screen(serve: Callable[..., Server], mock: Mock) -> None:
    server = serve(environ={"OUR_KEY": KEY}, log__level="debug")
    boss = server.owner
    file = server.home / "key"
    file.touch(mode=0o600)
    file.write_text(FILED)
    boss.does(
        f"model add one openai gpt-5.6-luna --url {mock.url}/v1 --key-env OUR_KEY",
        f"model add two openai gpt-5.6-luna --url {mock.url}/v1 --key-file {file}",
    )
    out = [boss.run(line).out for line in ("@one hello", "@two hello", "@one the locked door")]
    assert out[0] == "one: Hello.\n"
    assert "check the environment variable OUR_KEY" in out[2]
    sent = mock.asked("hello")
    assert sent  # the mock redacts what it was sent; that it answered shows that a key came
    typed = (
        f"model add three openai m --key-env {KEY}",
        f"model add three openai m --key-file {KEY}",
        f"model add three openai {KEY}",
        f"model add three {KEY} m",
        f"model add three openai m --url https://example.org/v1?key={KEY}",
        f"model add three openai m --prompt {KEY}",
        f"model set one key_env {KEY}",
        f"model set one prompt my key is {KEY}",
        f"model set one {KEY} x",
        f"model show {KEY}",
    )
    for line in typed:
        refused = boss.run(line)
        assert refused.status != 0, line
        out.append(refused.out + refused.err)
    screen = boss.sit()
    screen.enter(f"/model set one key_env {KEY}")
    screen.wait_for("looks like a key")
    screen.enter("/model show one")
    screen.wait_for("last error")
    assert screen.count(KEY) == 1  # what was typed
    screen.enter("/quit")
    screen.wait_for_end()
    for line in ("model", "models", "model show one", "model show two", "history 50", "stats"):
        out += [boss.run(line).out, boss.run(f"{line} --json").out]
    boss.hang_up()
    assert server.stop() == 0
    secrets = (KEY, FILED)
    assert not [text for text in out if any(secret in text for secret in secrets)]
    assert not any(secret in server.log() for secret in secrets)
    for path in server.data_dir.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not [secret for secret in secrets if secret.encode() in data], path


@pytest.mark.soak
async def test_fifty_people_see_three_models_answer_at_once(
    serve: Callable[..., Server], mock: Mock
) -> None:
    server = await asyncio.to_thread(
        serve,
        ssh__limit_loopback="false",
        ssh__max_connections_per_key=WATCHERS * 2,
        models=json.dumps([settings(mock, name) for name in TALES]),
    )
    narrow = server.person("narrow")
    small = await asyncio.to_thread(narrow.sit, 60, 50)
    key = asyncssh.generate_private_key("ssh-ed25519")
    server.operate("keys_add", name="crowd", public_key=key.export_public_key().decode())
    connections: list[asyncssh.SSHClientConnection] = []
    people: list[tuple[TerminalSession, asyncssh.SSHClientChannel[bytes]]] = []
    async with asyncio.timeout(SECONDS):
        for _ in range(WATCHERS - 1):
            connection = await asyncssh.connect(
                server.host,
                server.port,
                username="crowd",
                client_keys=[key],
                known_hosts=None,
                config=None,
            )
            connections.append(connection)
            channel, watcher = await connection.create_session(
                TerminalSession, term_type="xterm", term_size=(600, 50), encoding=None
            )
            assert isinstance(watcher, TerminalSession)
            people.append((watcher, channel))
        for watcher, _ in people:
            await watcher.until(lambda seen: b"lobby> " in seen)
        people[0][1].write(b"@ash @birch @cedar tell me a tale\r")
        for name in TALES:
            await asyncio.to_thread(small.wait_for, f"the end of {name}", SECONDS)
        ends = [f"{name}: {tale(name)}\r\n".encode() for name in TALES]
        for watcher, _ in people:
            await watcher.until(lambda seen: all(end in _plain(seen) for end in ends))
    for watcher, _ in people:
        assert not watcher.over
        seen = _plain(watcher.seen)
        assert b"skipped" not in seen
        for end in ends:
            assert seen.count(end) >= 1

    def whole() -> bool:
        """Each tale is shown once; it was also shown while it arrived."""
        shown = " ".join(text.strip() for text in small.everything)
        return all(
            f"{name}: {tale(name)}" in shown and shown.count(f"the end of {name}") == 1
            for name in TALES
        )

    small.wait_for(whole)
    for connection in connections:
        connection.abort()
    await asyncio.gather(*(connection.wait_closed() for connection in connections))
    narrow.hang_up()


def _plain(seen: bytes) -> bytes:
    return re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen)
