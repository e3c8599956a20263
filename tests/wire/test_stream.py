"""`stream` of the HTTP API: answers as they are written, with the calls of tools."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.driver.script import Script, speaking
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack
from support.waiting import wait_until

SseEvent = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def model() -> Iterator[Script]:
    with speaking("qwen") as script:
        yield script


@pytest.fixture(scope="module")
def house(model: Script) -> Iterator[Server]:
    with serving(models=model.settings) as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"))
    one.does(f"create {name('den')}", "equip room workspace:*")
    yield one
    one.hang_up()


@contextlib.contextmanager
def streaming(house: Server, person: Person, body: dict[str, Any]) -> Iterator[Any]:
    """Ask for a stream; the value is the response, whose end is not waited for."""
    token = person.json("token new web")
    room = person.json("files")["room"]
    host, _, port = house.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request(
        "POST", f"/api/v1/stream?room={room}", json.dumps(body),
        {"Authorization": f"Bearer {token['token']}", "Content-Type": "application/json"},
    )  # fmt: skip
    try:
        yield connection.getresponse()
    finally:
        connection.close()
        person.does(f"token revoke {token['id']}")


def read_events(response: Any) -> Iterator[SseEvent]:
    kind = ""
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


def test_answer_comes_as_it_is_written(house: Server, model: Script, ann: Person) -> None:
    going = Event()
    model.will("qwen", "The first half, ", going, "and the second.")
    with streaming(house, ann, {"text": "@qwen how far?"}) as response:
        assert response.status == 200
        assert response.getheader("content-type").startswith("text/event-stream")
        events = read_events(response)
        kind, said = next(events)
        assert (kind, said["text"]) == ("said", "@qwen how far?")
        (turn,) = said["turns"]
        text = ""
        while text != "The first half, ":
            kind, data = next(events)
            if kind == "text":
                assert (data["turn"], data["author"]) == (turn, "qwen")
                text += data["more"]
        going.set()
        rest = list(events)
    assert rest[-1][0] == "end"
    assert [one["text"] for one in rest[-1][1]["result"]["answers"]] == [
        "The first half, and the second."
    ]
    rows = [data for kind, data in rest if kind == "row"]
    assert [(one["kind"], one["text"]) for one in rows] == [
        ("chat", "The first half, and the second.")
    ]


def test_tools_of_a_streamed_answer_make_versions(
    house: Server, model: Script, ann: Person
) -> None:
    call = ("workspace__write_file", {"path": "plan.md", "content": "one\n"})
    model.will("qwen", [call])
    model.will("qwen", "Done.")
    with streaming(house, ann, {"text": "@qwen write the plan"}) as response:
        events = list(read_events(response))
    rows = [(data["kind"], data.get("tool")) for kind, data in events if kind == "row"]
    assert rows == [
        ("tool.call", "workspace:write_file"), ("tool.result", "workspace:write_file"),
        ("chat", None),
    ]  # fmt: skip
    (found,) = house.owner.json(
        "sql SELECT pre_manifest_id, post_manifest_id FROM tool_calls"
        " WHERE tool_id = 'workspace:write_file'"
    )["rows"]
    assert found[1] is not None and found[0] != found[1]
    assert ann.does("file get plan.md").strip() == "one"


@needs_bubblewrap
def test_row_of_a_streamed_result_names_the_files_that_changed(
    house: Server, model: Script, ann: Person
) -> None:
    archive = pack(kit("kit", functions=("paint",)))
    assert house.owner.run("toolset import", archive, "-T").status == 0
    ann.does("equip room kit:*")
    model.will("qwen", [("kit__paint", {"where": {"path": "wall"}})])
    model.will("qwen", "Done.")
    with streaming(house, ann, {"text": "@qwen paint it"}) as response:
        rows = [data for kind, data in read_events(response) if kind == "row"]
    assert [row.get("changes") for row in rows] == [None, "changed wall", None]


@needs_bubblewrap
def test_call_that_waits_for_an_approval_says_its_number(
    house: Server, model: Script, ann: Person
) -> None:
    house.owner.sit(room=ann.json("files")["room"])
    model.will("qwen", [("workspace__run_command", {"command": "true"})])
    model.will("qwen", "Done.")
    with streaming(house, ann, {"text": "@qwen run it"}) as response:
        events = read_events(response)
        question = next(data for kind, data in events if "approval" in data)
        assert question["text"].startswith("asks to run workspace:run_command")
        house.owner.does(f"deny {question['approval']} --room {ann.json('files')['room']}")
        answer = next(data for kind, data in events if kind == "row")
        assert answer["author"] == house.owner.name
        assert answer["text"].startswith("denied workspace:run_command")
        assert answer["turn"] == question["turn"]
        assert [kind for kind, _ in events][-1] == "end"


def test_refused_message_has_a_status_and_no_stream(house: Server, ann: Person) -> None:
    for body, status, error in (
        ({}, 422, "invalid"), ({"text": ""}, 422, "invalid"), ({"line": "/look"}, 422, "invalid"),
    ):  # fmt: skip
        with streaming(house, ann, body) as response:
            assert response.status == status
            assert json.loads(response.read())["error"] == error
    with streaming(house, ann, {"text": "nobody is asked"}) as response:
        assert [kind for kind, _ in read_events(response)] == ["said", "end"]


def test_answer_goes_on_without_its_client(house: Server, model: Script, ann: Person) -> None:
    going = Event()
    model.will("qwen", "Half, ", going, "whole.")
    with streaming(house, ann, {"text": "@qwen go on"}) as response:
        for kind, _ in read_events(response):
            if kind == "text":
                break
        response.close()
        going.set()
        wait_until(lambda: "Half, whole." in ann.does("history"))
