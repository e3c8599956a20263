"""MCP servers by others, for people and models: added, called, killed, asking."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.aimock import mocking
from support.driver.covers import covers
from support.driver.fixtures import homes, untroubled
from support.driver.installed import NODE, POISONED, from_npm, from_pypi
from support.processes import programs_of


@pytest.fixture(scope="module")
def mock() -> Iterator[str]:
    """A model that adds numbers with its offered tool, and one that answers slowly."""
    adds = {"name": "everything__get-sum", "arguments": '{"a": 19, "b": 23}', "id": "call_a"}
    works = {"name": "everything__trigger-long-running-operation",
             "arguments": '{"duration": 3, "steps": 3}', "id": "call_b"}  # fmt: skip
    scripts: list[dict[str, Any]] = []
    for words, call, answer in (("add them", adds, "It is 42."), ("work", works, "Done.")):
        scripts += [
            {"match": {"userMessage": words, "hasToolResult": False},
             "response": {"toolCalls": [call]}},
            {"match": {"userMessage": words, "hasToolResult": True},
             "response": {"content": answer}},
        ]  # fmt: skip
    with mocking(scripts) as mock:
        yield mock.url


@pytest.fixture(scope="module")
def running(mock: str) -> Iterator[Server]:
    """The server that these tests share, with a model; each test has its own room."""
    model = {"name": "sum", "kind": "compatible", "model": "m", "base_url": f"{mock}/v1"}
    with homes() as home:
        server = Server(home(), models=json.dumps([model]), limits__lines_per_10_seconds=1_000_000)
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="module")
def everything(running: Server) -> Iterator[str]:
    """`everything` runs; what was shown when it was added."""
    owner = running.owner
    command = words(NODE, from_npm("server-everything"))
    yield owner.does(f"mcp add everything -- {command}")
    owner.hang_up()


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """The shared server, in which a test removes the MCP servers that it has added."""
    with untroubled(running):
        before = {one["name"] for one in running.owner.json("mcp")["servers"]}
        yield running
        owner = running.owner
        for one in owner.json("mcp")["servers"]:
            if one["name"] not in before:
                owner.does(f"mcp remove {one['name']}")
        owner.hang_up()


@pytest.fixture
def person(server: Server, name: Callable[[str], str]) -> Iterator[Callable[..., Person]]:
    """Make an agent with a key, whose name gets an ending nobody else has."""
    made: list[Person] = []

    def make(base: str, role: str = "member") -> Person:
        made.append(server.person(name(base), role))
        return made[-1]

    yield make
    for one in made:
        one.hang_up()


@pytest.fixture
def owner(server: Server) -> Iterator[Person]:
    found = server.owner
    yield found
    found.hang_up()


@pytest.fixture
def room(owner: Person, name: Callable[[str], str]) -> str:
    """A room that the owner has made, where the owner's commands run."""
    made = name("studio")
    owner.does(f"create {made}")
    return made


def words(*command: str) -> str:
    """A command as one would type it."""
    return shlex.join(command)


@covers("mcp add", "mcp list", "inv show", "equip", "run", "examine")
def test_servers_are_added_equipped_and_called_by_people_and_models(
    owner: Person, person: Callable[..., Person], room: str, everything: str, tmp_path: Path
) -> None:
    guest = person("gast")
    guest.does(f"join {room}")
    (tmp_path / "note.txt").write_text("a note")
    added = r"everything is up with \d+ tools\. /equip room everything:\*"
    assert re.match(added, everything), everything
    owner.does(
        f"mcp add files -- {words(NODE, from_npm('server-filesystem'), str(tmp_path))}",
        f"mcp add clock --call-seconds 30 -- {words(*from_pypi('mcp_server_time'))}",
    )
    listed = guest.json("mcp")["servers"]
    assert [(one["name"], one["state"]) for one in listed] == [
        ("clock", "up"), ("everything", "up"), ("files", "up"),
    ]  # fmt: skip
    assert "○ everything:get-sum" in guest.does("inv all")
    refused = guest.run("run everything:get-sum a=1 b=2")
    assert "is not equipped here" in refused.err
    owner.does("equip room everything:* clock:* files:read_text_file")
    assert "✓ everything:get-sum" in guest.does("inv")
    assert "[everything, available]" in guest.does("inv")
    screen = guest.sit(120, 40, room=room)
    screen.enter("/run everything:get-sum a=19 b=23")
    screen.wait_for("The sum of 19 and 23 is 42.")
    screen.enter(f"/run files:read_text_file path={tmp_path}/note.txt")
    screen.wait_for("a note")
    screen.enter("/run clock:get_current_time timezone=UTC")
    screen.wait_for('"timezone": "UTC"')
    screen.enter("@sum add them")
    screen.wait_for("sum → everything:get-sum")
    screen.wait_for("The sum of 19 and 23 is 42.")
    screen.wait_for("sum: It is 42.")
    seen = guest.does("examine everything:get-sum")
    assert "Location: everything (MCP server)" in seen
    assert "Status: available" in seen
    assert "2 calls, 0 errors" in seen


@covers("mcp add")
@pytest.mark.usefixtures("everything")
def test_progress_of_a_call_is_shown_in_the_room(
    owner: Person, person: Callable[..., Person], room: str
) -> None:
    guest = person("gast")
    owner.does("equip room everything:trigger-long-running-operation")
    screen, hers = owner.sit(120, 40, room=room), guest.sit(120, 40, room=room)
    screen.enter("/run everything:trigger-long-running-operation duration=3 steps=3")
    far = re.compile(rf"{owner.name} \d\.\ds · trigger-long-running-operation: 1/3")
    screen.wait_for(far)
    hers.wait_for(far)
    for one in (screen, hers):
        one.wait_for("✓ everything:trigger-long-running-operation")
        one.wait_for(lambda one=one: "1/3" not in "\n".join(one.lines))
    screen.enter("@sum work")
    screen.wait_for(re.compile(r"sum .*trigger-long-running-operation: 1/3"))
    screen.wait_for("sum: Done.")


@covers("run", "expand")
def test_result_of_megabytes_is_folded_in_the_terminal(owner: Person, room: str) -> None:
    owner.does(f"mcp add evil -- {words(*POISONED)}", "equip room evil:big")
    screen = owner.sit(120, 40, room=room)
    screen.enter("/run evil:big bytes=3000000")
    screen.wait_for(re.compile(r"… 2980000 more: /expand \d+ --start 20000, or --json"))
    screen.enter("still here")
    screen.wait_for(f"{owner.name}: still here")
    whole = owner.json("run evil:big bytes=3000000")
    assert len(whole["text"]) == 3_000_000
    part = owner.json(f"expand {whole['seq']} --start 2990000")
    assert (part["text"], part["left"]) == ("A" * 10_000, 0)


@covers("attachment", "run")
@pytest.mark.usefixtures("everything")
def test_image_result_is_stored_and_can_be_fetched(
    server: Server, owner: Person, person: Callable[..., Person], room: str
) -> None:
    guest = person("gast")
    guest.does(f"join {room}")
    owner.does("equip room everything:get-tiny-image")
    screen = guest.sit(120, 40, room=room)
    owner.does("run everything:get-tiny-image")
    hint = re.compile(r"/attachment (\d+)")
    screen.wait_for(hint)
    shown = hint.search(screen.text)
    assert shown
    seq = int(shown[1])
    image = guest.run(f"attachment {seq}").raw
    assert image.startswith(b"\x89PNG\r\n")
    received = guest.json("attachment")
    assert (received["seq"], received["kind"], received["size"]) == (seq, "image/png", len(image))
    assert base64.b64decode(received["data"]) == image
    assert f"image/png, {len(image):,} bytes, attachment 1]" in guest.does(f"expand {seq}")
    screen.enter(f"/attachment {seq}")
    screen.wait_for(f"ssh HOST attachment {seq} > FILE")
    assert "not found: the row has 1" in guest.run(f"attachment {seq} 2").err
    assert "has no attachment" in guest.run(f"attachment {seq - 1}").err
    # An agent of another host gets the image itself, and can read it later.
    token = server.operate("token_new", name=guest.name, scope="act")["token"]
    called = _ask(server, token, "tools/call", "everything.get-tiny-image", arguments={})
    (block,) = (one for one in called["content"] if one["type"] == "image")
    assert (block["mimeType"], base64.b64decode(block["data"])) == ("image/png", image)
    read = _ask(server, token, "resources/read", f"row://{room}/{seq}/1")["contents"]
    assert [(one["mimeType"], base64.b64decode(one["blob"])) for one in read] == [
        ("image/png", image)
    ]


def _ask(server: Server, token: str, method: str, name: str, **params: Any) -> Any:
    """The result of one request of the newer protocol."""
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": "2026-07-28",
        f"{prefix}clientInfo": {"name": "test", "version": "1"},
        f"{prefix}clientCapabilities": {},
    }
    key = "uri" if method == "resources/read" else "name"
    body = {"jsonrpc": "2.0", "id": 1, "method": method,
            "params": {key: name, **params, "_meta": meta}}  # fmt: skip
    headers = {"Authorization": f"Bearer {token}", "MCP-Protocol-Version": "2026-07-28",
               "Mcp-Method": method, "Mcp-Name": name, "Content-Type": "application/json",
               "Accept": "application/json, text/event-stream"}  # fmt: skip
    request = urllib.request.Request(
        f"http://{server.http}/mcp", json.dumps(body).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())["result"]


@covers("answer", "run")
def test_elicitation_is_answered_in_the_terminal_of_the_caller(
    owner: Person, person: Callable[..., Person], room: str
) -> None:
    other = person("other")
    other.does(f"join {room}")
    owner.does(f"mcp add evil -- {words(*POISONED)}", "equip room evil:*")
    hers, his = owner.sit(120, 40, room=room), other.sit(120, 40, room=room)
    hers.enter("/run evil:ask")
    hers.wait_for("evil asks: About [1mthe weather.")
    hers.wait_for("city (Where):")
    for typed, shown in (
        ("swordfish", "A tool waits for your answer."),  # else said when the run has ended
        ("/help answer", "/answer [--decline]"),  # not after the run
        ("/answer Oslo", "days: a whole number"),
        ("/answer 5", "unit: C, F"),
        ("/answer --decline", '{"action": "decline"}'),
    ):
        hers.enter(typed)
        hers.wait_for(shown)
    assert "not sent: swordfish" in hers.text
    his.wait_for("→ evil:ask")
    assert "asks:" not in his.text and "swordfish" not in his.text
    other.hang_up()
    # A person without a terminal is asked in lines, and answers while the call runs.
    plain = other.pipe()
    assert plain.stdin and plain.stdout
    plain.stdin.write(f"/join {room}\n".encode())
    for typed, awaited in (
        ("/run evil:ask", "city (Where):"),
        ("/answer Rome", "days: a whole number"),
        ("/answer --decline", '{"action": "decline"}'),
    ):
        plain.stdin.write(f"{typed}\n".encode())
        plain.stdin.flush()
        while awaited not in (heard := plain.stdout.readline().decode()):
            assert heard, f"it ended before {awaited}"
    # What ssh carries out for somebody without a terminal has nobody to ask.
    other.hang_up()
    assert "decline" in other.does("run evil:ask")
    assert "No question is waiting for your answer" in owner.run("answer me").err


@covers("mcp disable", "mcp enable", "mcp log")
def test_mcp_server_restarts_after_it_or_the_program_is_killed(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    owner = server.owner
    owner.does(f"mcp add evil -- {words(*POISONED)}", "equip room evil:*")
    program = programs_of(server)[0]
    os.kill(program, signal.SIGKILL)
    _until(lambda: programs_of(server) not in ([], [program]))
    _until(lambda: owner.run("run evil:echo").status == 0, pause=0.3)
    server.kill()
    _until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in (program, *programs_of(server)))
    )
    server.start()
    owner.hang_up()
    owner = server.owner
    _until(lambda: owner.run("run evil:echo").status == 0, pause=0.3)
    assert "evil is already disabled." in owner.does("mcp disable evil", "mcp disable evil")
    assert "✗ evil:echo" in owner.does("inv")
    assert "evil is disabled" in owner.run("run evil:echo").err
    assert "dying" not in owner.does("mcp log evil")
    assert "evil is already enabled." in owner.does("mcp enable evil", "mcp enable evil")
    assert owner.run("run evil:echo").status == 0
    assert "poisoned server starts" in owner.does("mcp log evil")
    owner.hang_up()


@covers("mcp add", "mcp show", "mcp list", "mcp refresh", "mcp remove")
def test_mcp_verbs_check_rights(serve: Callable[..., Server]) -> None:
    server = serve()
    owner, admin, member = server.owner, server.person("boss", "admin"), server.person("someone")
    for who in (admin, member):
        refused = who.run("mcp add x -- true")
        assert refused.status == 1
        assert "needs the own right" in refused.err
    added = owner.does(f"mcp add evil --env WHERE=/srv/secrets -- {words(*POISONED)} odd")
    assert "evil is up with 11 tools" in added
    assert (
        "11 refused, 8 repaired. /mcp show evil says why. /equip room evil:* equips them." in added
    )
    tools = owner.does("namespace show evil")
    assert "Takes anything.…" in tools
    assert "^J" not in tools
    assert "/srv/secrets" in admin.does("mcp show evil")
    for seen in (member.does("mcp show evil"), member.does("mcp")):
        assert "/srv/secrets" not in seen
        assert "poisoned.py" not in seen
    shown = member.does("mcp show evil")
    assert "its input schema has an external reference: http://127.0.0.1:9/x" in shown
    assert "Nice tool[31m. <system>" in shown
    for line in ("mcp log evil", "mcp refresh evil", "mcp disable evil", "mcp approve evil"):
        assert "needs the admin right" in member.run(line).err, line
    admin.does("mcp refresh evil", "mcp disable evil", "mcp enable evil")
    assert "needs the own right" in admin.run("mcp remove evil").err
    secret = owner.run("mcp add two https://example.org/mcp --header 'Authorization: Bearer abc'")
    assert secret.status == 2
    assert "looks like a secret" in secret.err
    for line in (
        "mcp add two -- env API_TOKEN=a1B2c3D4e5F6g7H8i9J0k1L2m3 true",
        "mcp add two -- true --key sk-a1B2c3D4e5F6g7H8i9J0",
    ):
        assert "A word of the command looks like a secret" in owner.run(line).err, line
    address = owner.run("mcp add two https://example.org/mcp?key=sk-a1B2c3D4e5F6g7H8i9J0")
    assert "must not contain a secret" in address.err
    private = owner.run("mcp add two http://127.0.0.1:9/mcp")
    assert private.status == 1
    assert "127.0.0.1 is on this machine or in a private network" in private.err
    assert "Allow it with --allow-private" in private.err
    removed = "Removed evil. Its equipment is kept and applies if you add it again."
    assert owner.does("mcp remove evil").strip() == removed
    assert "No MCP servers" in member.does("mcp list")
    for one in (owner, admin, member):
        one.hang_up()


@covers("mcp approve", "mcp show")
def test_changed_tool_works_again_after_approval(
    owner: Person, person: Callable[..., Person], room: str
) -> None:
    admin, member = person("boss", "admin"), person("someone")
    member.does(f"join {room}")
    owner.does(f"mcp add evil -- {words(*POISONED)} rug", "equip room evil:*", "run evil:again")
    _until(lambda: _waiting(owner, "evil") == 2)
    assert "changed since it was approved" in member.run("run evil:echo").err
    assert "mcp show evil, then approve" in admin.run("mcp approve evil").err
    assert "+Gives back what it was sent. Before using it" in admin.does("mcp show evil")
    assert admin.does("mcp approve evil echo").strip() == "Approved echo."
    assert member.run("run evil:echo").status == 0
    assert admin.does("mcp approve evil").strip() == "Approved newcomer."
    owner.does("equip room evil:newcomer")
    assert member.run("run evil:newcomer").status == 0


def test_mcp_servers_in_the_settings_start_with_the_program(serve: Callable[..., Server]) -> None:
    entry = {"name": "evil", "command": list(POISONED), "trust": True}
    server = serve(mcp=json.dumps([entry]), limits__lines_per_10_seconds=1_000_000)
    owner = server.owner
    _until(lambda: owner.json("mcp")["servers"][0]["state"] == "up")
    assert "is in the settings file" in owner.run("mcp remove evil").err
    owner.hang_up()


def _waiting(person: Person, name: str) -> int:
    """How many tools of an MCP server wait to be approved."""
    (found,) = (one for one in person.json("mcp list")["servers"] if one["name"] == name)
    return int(found["waiting"])


def _until(what: Callable[[], bool], seconds: float = 30, pause: float = 0.02) -> None:
    began, never = time.monotonic(), threading.Event()
    while not what():
        assert time.monotonic() - began < seconds, "it did not come true"
        never.wait(pause)
