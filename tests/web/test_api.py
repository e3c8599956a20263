"""The HTTP API: every verb for the holder of an agent's token."""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import sshwarma
from sshwarma.admin import operations
from sshwarma.settings import LimitSettings, ReloadableSettings
from sshwarma.verbs import views
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.registry import every_verb, tool_specs
from sshwarma.web.api import HttpApi
from sshwarma.web.errors import HTTP_STATUSES
from sshwarma.web.http import HttpServer
from sshwarma.web.metrics import MetricsPage
from sshwarma.world import agents
from sshwarma.world.databases import Location
from sshwarma.world.errors import WorldError
from sshwarma.world.reader import Reader
from sshwarma.world.world import World
from support.services import make_services

LIMITS = LimitSettings(stdin_bytes=10_000)

PER_10_SECONDS = 30


class Client:
    """Speaks HTTP/1.0 to the server under test, one request a connection."""

    def __init__(self, world: World, port: int) -> None:
        self.world = world
        self.port = port
        self.headers: dict[bytes, bytes] = {}

    async def ask(
        self, method: str, path: str, token: str = "", body: bytes = b""
    ) -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"{method} {path} HTTP/1.0\r\nContent-Length: {len(body)}\r\n"
        if token:
            head += f"Authorization: Bearer {token}\r\n"
        writer.write(head.encode() + b"\r\n" + body)
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        await writer.wait_closed()
        status, _, rest = answer.partition(b"\r\n")
        headers, _, content = rest.partition(b"\r\n\r\n")
        self.headers = dict(line.lower().split(b": ", 1) for line in headers.split(b"\r\n"))
        try:
            return int(status.split()[1]), json.loads(content)
        except ValueError:
            return int(status.split()[1]), content.decode()

    async def do(self, verb: str, token: str, **arguments: object) -> tuple[int, Any]:
        return await self.ask(
            "POST", f"/api/v1/verbs/{verb}", token, json.dumps(arguments).encode()
        )

    async def token(self, name: str, **options: object) -> str:
        made = await operations.run_operation(
            self.world, "token_new", {"name": name, "scope": "build", **options}
        )
        return str(made["token"])


@pytest.fixture
async def web(database: Location) -> AsyncIterator[Client]:
    world = await World.open(database, tool_specs())
    for name, role in (("alice", "owner"), ("bob", "member")):
        await world.change(
            lambda tx, name=name, role=role: agents.create_agent(tx, name, role=role)
        )
    http = HttpServer(
        world,
        MetricsPage(),
        HttpApi(
            world,
            make_services(world),
            ReloadableSettings(limits=LIMITS),
            LineRateLimiter(PER_10_SECONDS),
        ),
    )
    http.bind("127.0.0.1", 0)
    await http.serve()
    yield Client(world, http.port)
    await http.stop()
    await world.close()


async def test_verb_runs_as_the_agent_of_the_token(web: Client) -> None:
    token = await web.token("alice")
    status, answer = await web.do("say", token, text="hello")
    assert (status, answer["result"]["who"], answer["text"]) == (200, "alice", "alice: hello")
    tail = await web.world.last_rows("lobby", 1)
    assert [(row.content, row.author_id) for row in tail] == [
        ("hello", web.world.agents.find("alice").id)
    ]


@pytest.mark.parametrize("token", ["", "swt_nonsense", "nonsense"])
async def test_invalid_token_is_unauthorized(web: Client, token: str) -> None:
    status, answer = await web.do("say", token, text="hello")
    assert (status, answer["error"]) == (401, "unauthorized")
    assert await web.world.last_rows("lobby", 5) == []


async def test_revoked_expired_or_disabled_token_is_unauthorized(web: Client) -> None:
    revoked, expired = await web.token("alice"), await web.token("alice", days=1e-9)
    listed = await operations.run_operation(web.world, "token_list", {"name": "alice"})
    assert len(listed) == 1
    await operations.run_operation(web.world, "token_revoke", {"token_id": listed[0]["id"]})
    bobs = await web.token("bob")
    await operations.run_operation(web.world, "agents_disable", {"name": "bob"})
    for token in (revoked, expired, bobs):
        assert (await web.do("look", token))[0] == 401


async def test_rate_limit_answers_429_with_retry_after(web: Client) -> None:
    token = await web.token("alice")
    statuses = [(await web.do("me", token, text="waves"))[0] for _ in range(PER_10_SECONDS)]
    assert set(statuses) == {200}
    status, answer = await web.do("me", token, text="waves")
    assert (status, answer["error"]) == (429, "rate_limited")
    assert 1 <= int(web.headers[b"retry-after"]) <= 10
    assert answer["hint"] == f"Wait {int(web.headers[b'retry-after'])} s."


async def test_reads_have_a_pace_of_their_own(web: Client) -> None:
    token = await web.token("alice")
    for _ in range(PER_10_SECONDS * 3):
        assert (await web.do("look", token))[0] == 200
        assert (await web.ask("POST", "/api/v1/line", token, b'{"line": "/look"}'))[0] == 200
    assert (await web.do("me", token, text="waves"))[0] == 200


async def test_error_message_contains_no_commands(web: Client) -> None:
    token = await web.token("alice")
    status, answer = await web.do("join", token, room="nowhere-at-all")
    assert status == 404
    assert "nowhere-at-all" in answer["message"]
    assert "/" not in answer["message"] + answer["hint"]


async def test_verb_is_refused_without_the_right_of_the_agent(web: Client) -> None:
    status, answer = await web.do("vibe", await web.token("bob"), text="mine now")
    assert (status, answer["error"]) == (403, "forbidden")
    assert "alice" in answer["hint"]


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        ("nonsense", b"{}", 404),
        ("join", b'{"room": "nowhere"}', 404),
        ("portal", b'{"to": 3}', 422),
        ("look", b'{"nonsense": 1}', 422),
        ("look", b"[1]", 422),
        ("look", b"{not json", 422),
        ("look", b'{"room": [' + b"[]," * 20_000 + b"1]}", 413),
        ("create", b'{"room": "lobby"}', 409),
        ("say", b'{"text": "' + b"x" * 30_000 + b'"}', 413),
    ],
)
async def test_refusals_have_a_status_and_a_message(
    web: Client, verb: str, body: bytes, status: int
) -> None:
    token = await web.token("alice")
    answered, answer = await web.ask("POST", f"/api/v1/verbs/{verb}", token, body)
    assert answered == status
    assert answer["message"].endswith(".")


def _all_errors(of: type[WorldError] = WorldError) -> list[type[WorldError]]:
    return [of, *(found for kind in of.__subclasses__() for found in _all_errors(kind))]


def test_every_refusal_has_a_status() -> None:
    for module in pkgutil.walk_packages(sshwarma.__path__, "sshwarma."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    codes = {error.code for error in _all_errors() if error.__module__.startswith("sshwarma.")}
    assert codes >= {"blocked", "unauthorized", "rate_limited"}
    assert codes == set(HTTP_STATUSES)
    assert all(400 <= status < 500 or status == 503 for status in HTTP_STATUSES.values())


async def test_a_blocked_address_is_refused_with_words(web: Client) -> None:
    token = await web.token("alice")
    status, answer = await web.do("mcp_add", token, name="x", target="http://127.0.0.1:1/")
    assert (status, answer["error"]) == (403, "blocked")
    assert "127.0.0.1 is on this machine" in answer["message"]


async def test_every_error_has_the_same_body(web: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*args: Any, **more: Any) -> Any:
        raise RuntimeError("secret inside")

    token = await web.token("alice")
    monkeypatch.setattr("sshwarma.web.api.invoke", fail)
    for method, path, status, code in (
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/api/v1/verbs/look", 405, "method_not_allowed"),
        ("DELETE", "/api/v1/verbs", 405, "method_not_allowed"),
        ("POST", "/api/v1/verbs/look", 500, "internal"),
    ):
        answered, body = await web.ask(method, path, token)
        assert (answered, set(body)) == (status, {"error", "message", "hint"}), path
        assert body["error"] == code
        assert body["message"].endswith(".") and "secret" not in body["message"]
    assert "POST" in (await web.ask("GET", "/api/v1/verbs/look", token))[1]["hint"]


async def test_verbs_are_listed_with_their_schemas(web: Client) -> None:
    status, answer = await web.ask("GET", "/api/v1/verbs", await web.token("bob"))
    assert status == 200
    names = [verb["name"] for verb in answer["verbs"]]
    assert names == [verb.path for verb in every_verb() if not verb.ssh_only]
    assert {"look", "mcp_add"} < set(names)
    assert not {"edit", "tool_edit", "quit", "token_list", "token_new", "token_revoke"} & set(names)
    assert not [verb for verb in answer["verbs"] if "line" in verb]
    listed = {verb["name"]: verb for verb in answer["verbs"]}
    assert (listed["vibe"]["scope"], listed["vibe"]["change_scope"]) == ("read", "build")
    assert listed["vibe"]["rights"] == "Needs the enter right, build to set it"
    assert listed["put"]["rights"] == ("Needs the enter right, build for a bag that is not yours")
    assert all("needs" not in verb for verb in answer["verbs"])
    assert all(verb["input_schema"]["type"] == "object" for verb in answer["verbs"])


async def test_an_unknown_verb_points_to_the_near_ones(web: Client) -> None:
    token = await web.token("alice")
    for name, hint in (
        (
            "history",
            "It is a group of verbs: history_show, history_stats, history_of, history_diff.",
        ),
        ("nav", "It is a group of verbs: nav_show, nav_on, nav_off."),
        ("history_serch", "Did you mean history_show?"),
        ("lok", "Did you mean look?"),
    ):
        status, answer = await web.do(name, token)
        assert (status, answer["hint"]) == (404, hint)
    assert (await web.do("zzzzz", token))[1]["hint"]


async def test_what_needs_an_ssh_key_is_refused_with_the_reason(web: Client) -> None:
    token = await web.token("alice")
    for name, given in (("token_list", {}), ("edit", {"name": "x"}), ("quit", {})):
        status, answer = await web.do(name, token, **given)
        assert (status, answer["message"]) == (
            403, f"{name} works only over ssh, with your ssh key.",
        )  # fmt: skip


async def test_room_parameter_must_be_a_room_to_enter(web: Client) -> None:
    alice, bob = await web.token("alice"), await web.token("bob")
    await web.do("create", alice, room="den")
    assert (await web.do("room_private", alice))[0] == 200
    assert (await web.ask("POST", "/api/v1/verbs/look?room=lobby", alice))[1]["result"][
        "name"
    ] == "lobby"
    assert (await web.do("look", alice))[1]["result"]["name"] == "den"
    assert (await web.ask("POST", "/api/v1/verbs/look?room=den", bob))[0] == 404


async def test_healthz_fails_when_the_store_is_closed(web: Client) -> None:
    await web.world.store.close()
    status, answer = await web.ask("GET", "/healthz")
    assert (status, answer["status"]) == (503, "failing")


async def test_token_secret_is_not_stored(web: Client, tmp_path: Path) -> None:
    token = await web.token("alice")
    await web.do("look", token)
    await web.world.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert token.encode() not in stored


@pytest.mark.parametrize("arguments", [{"text": "so be it"}, 'text="so be it"'])
async def test_run_takes_arguments_as_an_object_or_as_text(web: Client, arguments: object) -> None:
    token = await web.token("alice")
    await web.do("equip", token, where="room", names=["sshwarma:decide"])
    status, answer = await web.do("run", token, name="sshwarma:decide", arguments=arguments)
    assert (status, answer["result"]["ok"]) == (200, True), answer
    status, answer = await web.do("journal", token)
    assert [entry["text"] for entry in answer["result"]["entries"]] == ["so be it"]


async def test_line_endpoint_runs_a_typed_line(web: Client) -> None:
    token = await web.token("alice")

    async def line(**body: object) -> tuple[int, Any]:
        return await web.ask("POST", "/api/v1/line", token, json.dumps(body).encode())

    status, answer = await line(line="/vibe calm")
    assert (status, answer["result"]["text"]) == (200, "calm")
    status, answer = await line(line="hello")
    assert (status, answer["text"]) == (200, "alice: hello")
    await line(line="/put command:greet = /say Hello {1}")
    await line(line="/equip room command:greet")
    status, answer = await line(line="/greet bob")
    assert (status, answer["text"]) == (200, "alice: Hello bob")
    for body in ({}, {"line": ""}, {"line": 7}, {"line": "/look", "room": "x"}):
        status, answer = await line(**body)
        assert (status, answer["error"]) == (422, "invalid"), body
    status, answer = await line(line="/nonsense")
    assert (status, answer["error"]) == (404, "not_found")
    assert (await web.ask("POST", "/api/v1/line", "", b"{}"))[0] == 401


async def test_errors_show_control_characters(web: Client) -> None:
    token = await web.token("bob")
    typed = "\x1b]0;x\x07\x9b2j\u202e"
    for path, body in (
        ("verbs/join", {"room": typed}),
        (f"verbs/{quote(typed)}", {}),
        ("verbs/look", {typed: 1}),
        ("line", {"line": f"/join {typed}"}),
        ("line", {"line": f"/{typed}"}),
        (f"verbs/look?room={quote(typed)}", {}),
    ):
        status, answer = await web.ask("POST", f"/api/v1/{path}", token, json.dumps(body).encode())
        text = answer["message"] + answer["hint"]
        assert 400 <= status < 500, path
        assert "^[]0;x^G<U+009B>2j<U+202E>" in text, (path, text)
        assert not {*typed} & {"\x1b", "\x07", "\x9b", "\u202e"} & {*text}


async def test_result_is_drawn_beside_the_event_loop(
    web: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[threading.Thread] = []

    def draw(reader: Reader, result: object) -> str:
        drawn.append(threading.current_thread())
        return "drawn"

    monkeypatch.setattr(views, "render_for", draw)
    _, answer = await web.do("look", await web.token("bob"))
    assert answer["text"] == "drawn"
    assert threading.current_thread() not in drawn


async def test_arguments_are_not_taken_from_a_query(web: Client) -> None:
    """A mistyped room would be the agent's last one."""
    token = await web.token("alice")
    status, answer = await web.do("say?romm=ops", token, text="hello")
    assert status == 422 and answer["message"] == "romm: unknown argument of the query."


async def test_a_page_is_asked_for_with_what_the_last_one_returned(web: Client) -> None:
    """A null is an argument that is not given."""
    token = await web.token("alice")
    for number in range(6):
        await web.do("say", token, text=f"line {number}")
    texts: list[str] = []
    asked = {"n": 2}
    while asked:
        status, answer = await web.do("history_show", token, **asked)
        assert status == 200, answer
        texts = [one["text"] for one in answer["result"]["entries"]] + texts
        asked = answer["result"]["older"]
    assert [one for one in texts if one.startswith("line")] == [f"line {n}" for n in range(6)]
    status, answer = await web.do("say", token, text=None)
    assert status == 422
