"""Hooks after their makers have lost rights, and their secrets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from sshwarma.common.limits import MAX_HOOK_HOPS, MAX_TRIGGER_EXCHANGES
from support.driver import Person, Server
from support.event_stream import hearing
from support.hook_receiver import Receiver, receiving
from support.http_api import Answer, Api
from support.waiting import wait_until

HELD_STATUS = 503
"""Answers for as long as a test wants an event to wait."""


@pytest.fixture
def held() -> Iterator[Receiver]:
    """A server that takes nothing until its `statuses` are cleared."""
    with receiving(*[HELD_STATUS] * 1_000) as receiver:
        yield receiver


def add(maker: Person, room: str, receiver: Receiver) -> None:
    maker.does(f"hook add out {receiver.url} --on row:chat --allow-private --room {room}")


def errors(person: Person, room: str) -> list[str]:
    return [one["error"] for one in person.json(f"hook log out --room {room}")["deliveries"]]


def send_keyed(api: Api, key: str, path: str, **arguments: object) -> Answer:
    return api.ask(path, json.dumps(arguments).encode(), headers={"Idempotency-Key": key})


@pytest.fixture
def maker(world: Server, bob: Person) -> Iterator[Person]:
    """A second owner of the server, until a test changes that."""
    world.operate("agents_role", name=bob.name, role="owner")
    yield bob
    world.operate("agents_role", name=bob.name, role="member")


def test_an_event_waits_while_its_maker_may_not_hear_it(
    world: Server, maker: Person, room: str, held: Receiver
) -> None:
    """A post is tried for a day: rights are asked for at each attempt."""
    owner = world.owner
    add(maker, room, held)
    with receiving(500, 500) as other:
        owner.does(f"hook add mine {other.url} --on row:chat --allow-private --own --room {room}")
        owner.does(f"say --room {room} a secret")
        wait_until(lambda: held.posts)
        world.operate("agents_disable", name=maker.name)
        held.statuses.clear()
        owner.does(f"say --room {room} another")
        other.wait_for(2)  # both have tried again meanwhile
    refused = owner.run(f"hook test out --room {room}")
    assert refused.status == 1 and "may not hear this room" in refused.err
    assert held.taken == []
    waits = {one["name"]: one["waits"] for one in owner.json(f"hook --room {room}")["hooks"]}
    assert waits == {"out": f"the account of {maker.name} is disabled", "mine": ""}
    assert f"waits: the account of {maker.name}" in owner.run(f"hook --room {room}").out
    world.operate("agents_enable", name=maker.name)
    wait_until(lambda: len(held.taken) == 2)
    assert [one.data["data"]["text"] for one in held.taken] == ["a secret", "another"]
    listed = owner.json(f"hook --room {room}")["hooks"]
    assert {(one["is_on"], one["failing_since"]) for one in listed} == {(True, None)}


def test_private_addresses_are_out_of_reach_of_who_was_an_owner(
    world: Server, maker: Person, room: str
) -> None:
    with receiving() as receiver:
        add(maker, room, receiver)
        maker.does(f"hook test out --room {room}")
        world.operate("agents_role", name=maker.name, role="member")
        world.owner.does(f"room builder {maker.name} --room {room}")
        tested = maker.run(f"hook test out --room {room}")
        assert (tested.status, "on this machine or in a private" in tested.out) == (1, True)
        world.owner.does(f"say --room {room} hello")
        wait_until(lambda: errors(maker, room))
        assert "private network" in errors(maker, room)[0]
        assert len(receiver.posts) == 1


def test_secret_of_a_hook_is_in_no_kept_answer(world: Server, room: str) -> None:
    build, read = (
        Api(world, world.operate("token_new", name=world.owner.name, scope=scope)["token"], room)
        for scope in ("build", "read")
    )
    made = send_keyed(build, "k1", "verbs/hook_in", name="ci")
    secret = made.data["result"]["secret"]
    again = send_keyed(build, "k1", "verbs/hook_in", name="ci")
    assert again.status == 409 and "had a secret" in again.data["message"]
    assert send_keyed(read, "k1", "verbs/hook_in", name="ci").status == 422, "another request"
    said = [send_keyed(build, "k2", "verbs/say", text="once") for _ in range(2)]
    assert said[0].body == said[1].body
    assert send_keyed(read, "k2", "verbs/say", text="once").status == 422
    assert secret not in world.read_everything_stored()


def test_entries_of_programs_are_those_of_programs(world: Server, bob: Person, room: str) -> None:
    """Whatever they write: a trigger and a bot that answers by notes would never end."""
    token = world.operate("token_new", name=bob.name, scope="build")["token"]
    api = Api(world, token, room)
    owner_token = str(world.operate("token_new", name=world.owner.name, scope="read")["token"])
    world.owner.does(f"room builder {bob.name} --room {room}")
    with hearing(world, owner_token, rooms=room, types="row") as stream:
        for path, arguments in (
            ("note", {"text": "n"}), ("decide", {"text": "d"}), ("me", {"text": "waves"}),
            ("vibe", {"text": "calm"}),
            ("relay", {"speaker": "al", "text": "i", "note": "idea"}),
        ):  # fmt: skip
            answer = api.ask(f"verbs/{path}", json.dumps(arguments).encode())
            assert answer.status == 200, answer.body
        mine = [stream.next("row") for _ in range(5)]
    assert [one["kind"] for one in mine] == [
        "journal.note", "journal.decision", "emote", "notice", "journal.idea",
    ]  # fmt: skip
    assert {one["speaker"]["kind"] for one in mine} == {"external"}
    assert mine[-1]["speaker"]["name"] == f"al@{bob.name}"


def test_a_bot_that_answers_a_trigger_by_notes_is_stopped(serve: Callable[..., Server]) -> None:
    server = serve(limits__lines_per_10_seconds=1_000_000)
    script = "-- @on row:note\nreturn 'seen'"
    server.owner.run("trigger new echo --room lobby", script)
    token = server.operate("token_new", name=server.owner.name, scope="act")["token"]
    api = Api(server, token, "lobby")
    for number in range(MAX_TRIGGER_EXCHANGES + 2):
        api.ask("verbs/note", json.dumps({"text": f"{number}"}).encode())
    wait_until(lambda: not server.owner.json("trigger --room lobby")["triggers"][0]["is_on"])


def test_hooks_that_post_to_each_other_end(world: Server, room: str) -> None:
    owner = world.owner
    address = owner.json(f"hook in back --room {room}")["url"]
    body = json.dumps({"text": "{text}"})
    owner.does(
        f"hook add out {address} --on row:chat --own --allow-private --body '{body}' --room {room}"
    )
    owner.does(f"say --room {room} ping")
    told = f"not sent: it came through {MAX_HOOK_HOPS} hooks"
    wait_until(lambda: told in errors(owner, room))
    said = [one["text"] for one in owner.json(f"history --room {room}")["entries"]]
    assert said.count("ping") == 1 + MAX_HOOK_HOPS
