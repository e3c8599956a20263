"""What programs hear: server-sent events, and lines over ssh."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sshwarma.common.limits import MAX_BRIDGED_EXCHANGES
from support.driver import Person, Server
from support.driver.covers import covers
from support.event_stream import EventStream, hearing
from support.http_api import Api


@pytest.fixture
def token(world: Server, bob: Person) -> str:
    return str(world.operate("token_new", name=bob.name, scope="act")["token"])


def texts(stream: EventStream, count: int) -> list[str]:
    """The texts of the next rows."""
    found = (one for one in stream.read() if one["type"] == "row" and one["kind"] == "chat")
    return [next(found)["text"] for _ in range(count)]


def test_rows_of_several_rooms_say_who_speaks_where_and_how_to_answer(
    world: Server, alice: Person, bob: Person, token: str, room: str
) -> None:
    with hearing(world, token, rooms=f"{room},lobby") as stream:
        alice.does(f"say --room {room} @{bob.name} hello")
        alice.does("say --room lobby good morning")
        alice.does(f"tell {bob.name} a word")
        heard = [stream.next("row") for _ in range(3)]
    assert [(one["room"], one["mention"], one["to_you"]) for one in heard] == [
        (room, True, False), ("lobby", False, False), (None, True, True),
    ]  # fmt: skip
    assert {one["speaker"]["name"] for one in heard} == {alice.name}
    assert {one["speaker"]["kind"] for one in heard} == {"person"}
    assert heard[0]["reply"] == {"verb": "say", "arguments": {}, "room": room}
    assert heard[2]["reply"] == {"verb": "tell", "arguments": {"name": alice.name}, "room": None}


def test_stream_goes_on_after_the_last_event_that_was_heard(
    world: Server, alice: Person, token: str, room: str
) -> None:
    with hearing(world, token, rooms=room) as stream:
        alice.does(f"say --room {room} one")
        assert texts(stream, 1) == ["one"]
        last_id = stream.last_id
    alice.does(f"say --room {room} two")
    alice.does(f"say --room {room} three")
    with hearing(world, token, last_id, rooms=room) as stream:
        alice.does(f"say --room {room} four")
        assert texts(stream, 3) == ["two", "three", "four"]
    with hearing(world, token, rooms=room, after=last_id) as stream:
        assert texts(stream, 2) == ["two", "three"]


def test_nothing_is_lost_or_doubled_when_the_server_is_killed(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    ann = server.person("ann")
    token = str(server.operate("token_new", name=server.owner.name, scope="read")["token"])
    heard: list[str] = []
    last_id = ""
    for kill in range(3):
        with hearing(server, token, last_id, rooms="lobby") as stream:
            for number in range(5):
                ann.does(f"say {kill}.{number}")
            heard += texts(stream, 3)
            last_id = stream.last_id
            server.kill()
        server.start()
    with hearing(server, token, last_id, rooms="lobby") as stream:
        heard += texts(stream, 15 - len(heard))
    assert heard == [f"{kill}.{number}" for kill in range(3) for number in range(5)]


def test_closed_rooms_are_not_heard(
    world: Server, alice: Person, bob: Person, token: str, room: str
) -> None:
    with hearing(world, token, rooms=f"{room},lobby") as stream:
        alice.does(f"room private --room {room}")
        ended = stream.next("end")
        assert (ended["room"], ended["again"]) == (room, False)
        alice.does(f"say --room {room} a secret")
        alice.does("say --room lobby open")
        assert stream.next("row")["text"] == "open"
    refused = Api(world, token).ask("events", query={"rooms": room})
    assert refused.status == 404


def test_stream_ends_with_its_token(world: Server, bob: Person) -> None:
    made = world.operate("token_new", name=bob.name, scope="read")
    with hearing(world, made["token"], rooms="lobby") as stream:
        bob.does(f"token revoke {made['id']}")
        ended = stream.next("end")
        assert (ended["room"], ended["again"]) == (None, False)
        assert list(stream.read()) == []


def test_wrong_arguments_are_refused_by_name(world: Server, token: str) -> None:
    api = Api(world, token)
    for query, told in (
        ({"rooms": "nowhere-at-all"}, "nowhere-at-all"),
        ({"after": "x"}, "after"),
        ({"after": "lobby:99999999"}, "beyond the end"),
        ({"types": "row,noise"}, "noise"),
        ({"colour": "red"}, "colour"),
        ({"own": "maybe"}, "own"),
        ({"rooms": ",".join(f"r{n}" for n in range(30))}, "rooms"),
    ):
        answer = api.ask("events", query=query)
        if answer.status == 200:  # the stream has begun before its cursor is looked at
            assert told in answer.body.decode(), query
        else:
            assert answer.status in (404, 422) and told in str(answer.data), query


def test_an_agent_has_a_few_streams(world: Server, token: str) -> None:
    with (
        hearing(world, token), hearing(world, token), hearing(world, token),
        hearing(world, token),
    ):  # fmt: skip
        refused = Api(world, token).ask("events")
        assert refused.status == 429 and int(refused.headers["retry-after"]) > 0
    with hearing(world, token):
        pass


def test_undo_is_heard_by_the_numbers_of_its_rows(
    world: Server, alice: Person, token: str, room: str
) -> None:
    with hearing(world, token, rooms=room, types="turns,row") as stream:
        alice.does(f"say --room {room} @guide what is a room?")
        rows = [stream.next("row")["seq"] for _ in range(2)]
        before = stream.last_id
        alice.does(f"undo --room {room}")
        turns = stream.next("turns")
    assert (turns["gone"], turns["back"]) == (rows, [])
    with hearing(world, token, rooms=room, types="turns", after=before) as stream:
        assert stream.next("turns") == turns, "it is heard again from the log"


def test_two_bots_do_not_talk_for_ever(
    world: Server, alice: Person, bob: Person, token: str, room: str
) -> None:
    """Each answers who calls it, and calls back."""
    own = str(world.operate("token_new", name=alice.name, scope="act")["token"])
    bots = {alice.name: Api(world, own, room), bob.name: Api(world, token, room)}
    said: list[str] = []
    with hearing(world, own, rooms=room) as first, hearing(world, token, rooms=room) as second:
        streams = {alice.name: first, bob.name: second}
        world.owner.does(f"say --room {room} @{alice.name} begin")
        calls = [(alice.name, streams[alice.name].next("row"))]
        while calls:
            name, event = calls.pop()
            if not event["mention"]:
                continue
            other = bob.name if name == alice.name else alice.name
            said.append(name)
            bots[name].post("verbs/say", text=f"@{other} I heard you")
            calls.append((other, next_of(streams[other], name)))
    assert said == [alice.name, bob.name, alice.name]


def test_bots_over_ssh_are_programs_while_they_hear(
    world: Server, alice: Person, bob: Person, token: str, room: str
) -> None:
    """What they say by commands is not taken for a person's, which ends an exchange."""
    own = str(world.operate("token_new", name=alice.name, scope="act")["token"])
    with hearing(world, own, rooms=room) as first, hearing(world, token, rooms=room) as second:
        world.owner.does(f"say --room {room} @{alice.name} begin")
        assert first.next("row")["mention"]
        alice.does(f"say --room {room} @{bob.name} one")
        heard = next_of(second, alice.name)
        assert (heard["mention"], heard["speaker"]["kind"]) == (True, "external")
        bob.does(f"say --room {room} @{alice.name} two")
        assert next_of(first, bob.name)["mention"]
        told = alice.json(f"say --room {room} @{bob.name} three")["note"]
        assert f"{bob.name} was called by programs before" in told
        assert not next_of(second, alice.name)["mention"]
        piped = f"/join {room}\n@{bob.name} by a pipe\n".encode()
        subprocess.run(alice.ssh("-T"), input=piped, check=True, stdout=subprocess.DEVNULL)
        assert (next_of(second, alice.name))["kind"] == "presence"
        assert not next_of(second, alice.name)["mention"]
        world.owner.does(f"say --room {room} and now?")
        bob.does(f"say --room {room} @{alice.name} four")
        assert next_of(first, bob.name)["mention"]


def test_a_person_who_watches_events_is_no_program(
    world: Server, alice: Person, token: str, room: str
) -> None:
    with hearing(world, token, rooms=room) as stream:
        command = [*alice.ssh("-T"), f"events {room}"]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ) as watching:
            assert watching.stdout and watching.stdout.readline().startswith(b"Hearing")
            alice.does(f"say --room {room} hello")
            assert next_of(stream, alice.name)["speaker"]["kind"] == "person"
            watching.terminate()


def test_alarms_and_people_behind_bridges_call_again(
    world: Server, alice: Person, token: str, room: str, bob: Person
) -> None:
    bridge = Api(
        world, str(world.operate("token_new", name=alice.name, scope="act")["token"]), room
    )
    bot = Api(world, token, room)
    with hearing(world, token, rooms=room) as stream:
        for number in range(3):
            bridge.post("verbs/say", text=f"@{bob.name} alert {number}")
            assert stream.next("row")["mention"]
            bot.post("verbs/say", text=f"{alice.name}, I heard: @{bob.name} alert {number}")
        for number in range(3):
            bridge.post("verbs/relay", speaker="zoe", text=f"@{bob.name} question {number}")
            assert stream.next("row")["mention"]
            bot.post("verbs/say", text=f"@zoe@{alice.name} an answer")
    calls = []
    with hearing(world, token, rooms=room) as stream:
        for number in range(MAX_BRIDGED_EXCHANGES):
            bridge.post("verbs/relay", speaker="zoe", text=f"@{bob.name} again {number}")
            calls.append(stream.next("row")["mention"])
            bot.post("verbs/say", text=f"@zoe@{alice.name} an answer")
    assert calls == [True] * (MAX_BRIDGED_EXCHANGES - 3) + [False] * 3


def test_a_ring_of_bots_ends(world: Server, room: str, person: Callable[..., Person]) -> None:
    people = [person() for _ in range(3)]
    tokens = [world.operate("token_new", name=one.name, scope="act")["token"] for one in people]
    apis = [Api(world, str(token), room) for token in tokens]
    calls = 0
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(hearing(world, str(one), rooms=room)) for one in tokens]
        world.owner.does(f"say --room {room} @{people[0].name} begin")
        caller, at = world.owner.name, 0
        while next_of(streams[at], caller)["mention"]:
            calls += 1
            following = (at + 1) % len(people)
            apis[at].post("verbs/say", text=f"@{people[following].name} pass it on")
            caller, at = people[at].name, following
    assert calls == len(people) + 1


def next_of(stream: EventStream, speaker: str) -> dict[str, Any]:
    """The next row of a speaker."""
    found = (one for one in stream.read() if one["type"] == "row")
    return next(one for one in found if one["speaker"]["name"] == speaker)


@pytest.fixture
def lines(world: Server, bob: Person, room: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [*bob.ssh("-T"), f"events {room} --json"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        yield process
        process.terminate()


@covers("events")
def test_events_are_lines_of_json_over_ssh(
    world: Server, alice: Person, bob: Person, room: str, lines: subprocess.Popen[bytes]
) -> None:
    assert lines.stdout
    start = json.loads(lines.stdout.readline())
    assert (start["type"], start["rooms"]) == ("start", [room])
    alice.does(f"say --room {room} @{bob.name} hello")
    row = json.loads(lines.stdout.readline())
    assert (row["type"], row["text"], row["mention"]) == ("row", f"@{bob.name} hello", True)
    alice.does(f"say --room {room} more")
    assert json.loads(lines.stdout.readline())["text"] == "more"
    screen = bob.sit(room=room)
    screen.enter("/events")
    screen.wait_for("The screen shows what happens here.")
