"""Hooks: events that are posted to other servers, and posts of theirs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from standardwebhooks import Webhook

from sshwarma.common.limits import MAX_HOOK_BODY_BYTES, MAX_HOOK_POSTS_PER_WINDOW
from support.driver import Person, Server
from support.driver.covers import covers
from support.free_ports import find_free_ports
from support.hook_receiver import Post, Receiver, receiving
from support.http_api import Answer, Api
from support.waiting import wait_until


@pytest.fixture
def den(world: Server, room: str) -> str:
    """A room whose builder is the owner of the server."""
    world.owner.does(f"join {room}")
    return room


def add(world: Server, room: str, name: str, receiver: Receiver, *flags: str) -> str:
    """Make a hook to a receiver on this machine; return its key."""
    words = " ".join(flags)
    command = f"hook add {name} {receiver.url} --allow-private {words} --room {room}"
    return str(world.owner.json(command)["secret"])


def post(url: str, body: bytes, kind: str = "application/json", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, {"Content-Type": kind, **named})
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        found = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(answer.status, found, answer.read())


def last_rows(person: Person, room: str, count: int = 1) -> list[tuple[str, str, str]]:
    entries = person.json(f"history {count} --room {room}")["entries"]
    return [(one["kind"], one["who"], one["text"]) for one in entries]


@covers("hook add", "hook list", "hook log", "hook remove")
def test_events_are_posted_signed_in_order(world: Server, bob: Person, den: str) -> None:
    owner = world.owner.name
    with receiving() as receiver:
        made = world.owner.json(
            f"hook add pager {receiver.url} --allow-private --on mention,row:decision --room {den}"
        )
        key = made["secret"]
        bob.does(f"say --room {den} nobody is called", f"say --room {den} @{owner} look")
        bob.does(f"decide --room {den} we ship", f"tell {owner} not for the room")
        world.owner.does(f"say --room {den} @{owner} of my own")
        mention, decision = receiver.wait_for(2)
        for arrived in (mention, decision):
            Webhook(key).verify(arrived.body, arrived.headers)
        assert mention.data["on"] == ["mention"]
        assert mention.data["text"] == f"[{den}] {bob.name}: @{owner} look"
        event = mention.data["data"]
        assert event["speaker"] == {"name": bob.name, "kind": "person"}
        assert event["reply"] == {"verb": "say", "arguments": {}, "room": den}
        assert decision.data["data"]["kind"] == "journal.decision"
        assert mention.id != decision.id
        (listed,) = bob.json(f"hook list --room {den}")["hooks"]
        assert (listed["name"], listed["direction"], listed["is_on"]) == ("pager", "out", True)
        assert listed["target"] == receiver.url.replace("/events", "/…"), "paths may be secret"
        (own,) = world.owner.json(f"hook --room {den}")["hooks"]
        assert own["target"] == receiver.url
        log = bob.json(f"hook log pager --room {den}")["deliveries"]
        assert [(one["event"], one["status"], one["error"]) for one in log] == [
            (mention.id, 200, ""),
            (decision.id, 200, ""),
        ]
        world.owner.does(f"hook remove pager --room {den}")
        bob.does(f"say --room {den} @{owner} again")
        assert bob.json(f"hook list --room {den}")["hooks"] == []
    assert len(receiver.posts) == 2
    audit = json.dumps(world.owner.json("audit --verb 'hook add'"))
    assert "/events" not in audit and "/…" in audit.encode().decode("unicode_escape")
    shown = [text for _, _, text in last_rows(bob, den, 9)]
    assert "made the hook pager, which posts mention,row:decision to 127.0.0.1" in shown
    assert "removed the hook pager" in shown


def test_a_post_that_fails_is_sent_again_with_its_id(world: Server, bob: Person, den: str) -> None:
    with receiving(500, 302, 429) as receiver:
        add(world, den, "ci", receiver, "--on row:chat")
        bob.does(f"say --room {den} one", f"say --room {den} two")
        one, two = receiver.wait_for(2)
        assert [arrived.status for arrived in receiver.posts] == [500, 302, 429, 200, 200]
        assert {arrived.id for arrived in receiver.posts[:4]} == {one.id}
        assert (one.data["data"]["text"], two.data["data"]["text"]) == ("one", "two")
        log = world.owner.json(f"hook log ci --room {den}")["deliveries"]
        assert [entry["status"] for entry in log] == [500, 302, 429, 200, 200]
        assert log[0]["error"] == "HTTP 500: not [31m now"
        assert log[1]["error"] == "HTTP 302: redirects are not followed"


def test_a_server_that_is_gone_turns_the_hook_off(world: Server, bob: Person, den: str) -> None:
    with receiving(410) as receiver:
        add(world, den, "ci", receiver, "--on row:chat")
        bob.does(f"say --room {den} one")
        wait_until(lambda: not world.owner.json(f"hook --room {den}")["hooks"][0]["is_on"])
        reason = "its server wants no more posts (HTTP 410)"
        assert last_rows(bob, den) == [("notice", "sshwarma", f"The hook ci is off: {reason}.")]
        bob.does(f"say --room {den} two")
        world.owner.does(f"hook on ci --room {den}")
        texts = [arrived.data["data"]["text"] for arrived in receiver.wait_for(2)]
        assert texts == ["one", "two"]


@covers("hook on", "hook off", "hook test")
def test_a_hook_goes_on_where_it_was_turned_off(world: Server, bob: Person, den: str) -> None:
    with receiving() as receiver:
        add(world, den, "ci", receiver, "--on row:chat")
        test = world.owner.json(f"hook test ci --room {den}")
        assert (test["status"], test["error"]) == (200, "")
        assert receiver.wait_for(1)[0].data["on"] == ["test"]
        world.owner.does(f"hook off ci --room {den}")
        bob.does(f"say --room {den} while it is off")
        world.owner.does(f"hook on ci --room {den}")
        bob.does(f"say --room {den} after")
        texts = [arrived.data["data"]["text"] for arrived in receiver.wait_for(3)[1:]]
        assert texts == ["while it is off", "after"]


def test_body_of_a_hook_has_values_of_the_event(world: Server, bob: Person, den: str) -> None:
    text = "{speaker.name}: {text} {no.such}"
    body = json.dumps({"text": text, "n": "{seq}", "x": [{"y": "{{z}}"}]})
    with receiving() as receiver:
        add(world, den, "chat", receiver, "--on row:chat", f"--body '{body}'")
        bob.does(f'say --room {den} she said "hi"')
        (arrived,) = receiver.wait_for(1)
    assert arrived.data["text"] == f'{bob.name}: she said "hi" '
    assert isinstance(arrived.data["n"], int) and arrived.data["x"] == [{"y": "{}"}]


@pytest.mark.process
def test_nothing_is_lost_or_changed_by_kills(serve: Callable[..., Server]) -> None:
    """Of both servers; what comes twice has the same id."""
    server = serve(limits__lines_per_10_seconds=1_000_000)
    (port,) = find_free_ports(1)
    arrived: list[list[Post]] = []  # a post may be taken a moment after its server has ended
    with receiving(port=port) as receiver:
        add(server, "lobby", "ci", receiver, "--on row:chat", "--own")
    for number in range(6):
        is_killed = number % 2 == 0 or number % 3 == 0
        if number % 2:
            with receiving(port=port) as receiver:
                server.owner.does(f"say line {number}")
                wait_until(lambda receiver=receiver: receiver.taken)
                if is_killed:
                    server.kill()
            arrived.append(receiver.posts)
        else:
            server.owner.does(f"say line {number}")
            server.kill()
        if is_killed:
            server.start()
    with receiving(port=port) as receiver:
        server.owner.does("say the last")
        wait_until(lambda: any("the last" in one.data["text"] for one in receiver.taken))
    arrived.append(receiver.posts)
    texts: dict[str, str] = {}
    for one in (post for posts in arrived for post in posts):
        text = one.data["data"]["text"]
        assert texts.setdefault(one.id, text) == text
    assert list(texts.values()) == [*(f"line {number}" for number in range(6)), "the last"]


def test_hooks_are_refused_in_words(world: Server, bob: Person, den: str) -> None:
    owner = world.owner
    for command, told in (
        ("hook add a http://127.0.0.1:1/ --on row", "on this machine or in a private network"),
        ("hook add a http://169.254.169.254/ --on row --allow-private", "not allowed"),
        ("hook add a ftp://example.org/ --on row", "http or https"),
        ("hook add a http://example.org/ --on rows", "on: unknown event rows. Events: mention,"),
        ("hook add a http://example.org/ --on row --body '[1]'", "body: must be a JSON object"),
        ("hook add a http://example.org/ --on row --body '{'", "body: is no JSON"),
        ("hook add A http://example.org/ --on row", "cannot be the name of a hook"),
        ("hook log nothing", "Unknown hook nothing here."),
        ("hook in ci --template " + "x" * 5_000, "template"),
    ):
        refused = owner.run(f"{command} --room {den}")
        assert refused.status and told in refused.err, (command, refused.err)
    for command in ("hook in ci", "hook add a http://example.org/ --on row"):
        refused = bob.run(f"{command} --room {den}")
        assert refused.status == 1 and "build right" in refused.err
    owner.does(f"hook in ci --room {den}")
    again = owner.run(f"hook in ci --room {den}")
    assert again.status == 1 and "There is a hook ci here." in again.err


@covers("hook in")
def test_posts_are_said_in_the_room(world: Server, bob: Person, den: str) -> None:
    owner = world.owner
    made = owner.json(f"hook in ci --room {den}")
    url = made["url"]
    assert url.startswith(f"http://{world.http}/hooks/swh_") and made["secret"] in url
    speaker = f"ci@{owner.name}"
    for body, kind, text in (
        (b'{"text": "built"}', "application/json", "built"),
        (b"plain\nlines", "text/plain; charset=utf-8", "plain\nlines"),
        (b"payload=%7B%22text%22%3A%22of+a+form%22%7D", "application/x-www-form-urlencoded",
         "of a form"),
        (b"text=a+field", "application/x-www-form-urlencoded", "a field"),
        (b'{"x": [1]}', "application/json", '```json\n{\n  "x": [\n    1\n  ]\n}\n```'),
    ):  # fmt: skip
        answer = post(url, body, kind)
        assert answer.status == 200 and answer.data["seq"] > 0
        assert last_rows(bob, den) == [("chat", speaker, text)]
    noted = owner.json(
        f"hook in deploys --note milestone --room {den} --template"
        " '{app.name} {app.tags.0}: {ok}{missing}'"
    )
    built = {"app": {"name": "web", "tags": ["v1"]}, "ok": True}
    assert post(noted["url"], json.dumps(built).encode()).status == 200
    assert last_rows(bob, den) == [("journal.milestone", f"deploys@{owner.name}", "web v1: true")]
    log = bob.json(f"hook log ci --room {den}")["deliveries"]
    assert [one["status"] for one in log] == [200] * 5


def test_a_post_with_an_id_is_taken_once(world: Server, bob: Person, den: str) -> None:
    url = world.owner.json(f"hook in ci --room {den}")["url"]
    first = post(url, b'{"text": "once"}', X_GitHub_Delivery="7")
    again = post(url, b'{"text": "once"}', X_GitHub_Delivery="7")
    assert (first.status, again.status, first.body) == (200, 200, again.body)
    assert again.headers["idempotency-replayed"] == "true"
    assert post(url, b'{"text": "other"}', webhook_id="7").status == 422
    assert [text for kind, _, text in last_rows(bob, den, 9) if kind == "chat"] == ["once"]


def test_posts_are_refused_in_words(world: Server, bob: Person, den: str) -> None:
    url = world.owner.json(f"hook in ci --room {den}")["url"]
    for body, kind, status, told in (
        (b"{", "application/json", 422, "not JSON"),
        (b'{"text": " "}', "application/json", 422, "no text"),
        (b"x" * (MAX_HOOK_BODY_BYTES + 1), "text/plain", 413, "at most"),
        (b"x" * 20_000, "text/plain", 422, "text: must have at most 16384 bytes"),
    ):
        answer = post(url, body, kind)
        assert answer.status == status and told in answer.data["message"], answer.body
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(url)
    assert post(url[:-1] + "!", b"{}").status == 404
    world.owner.does(f"hook off ci --room {den}")
    assert post(url, b'{"text": "x"}').status == 404
    world.owner.does(f"hook on ci --room {den}")
    answers = [post(url, b'{"text": "x"}').status for _ in range(MAX_HOOK_POSTS_PER_WINDOW + 1)]
    assert 429 in answers


def test_a_hook_has_the_rights_of_its_maker(world: Server, bob: Person, den: str) -> None:
    owner = world.owner
    owner.does(f"room builder {bob.name} --room {den}")
    url = bob.json(f"hook in ci --room {den}")["url"]
    assert post(url, b'{"text": "one"}').status == 200
    owner.does(f"mute {bob.name} 5 --room {den}")
    refused = post(url, b'{"text": "two"}')
    assert refused.status == 403, refused.body
    assert last_rows(owner, den)[-1][2] != "two"


@covers("relay")
def test_a_bridge_speaks_for_others(world: Server, bob: Person, den: str) -> None:
    token = str(world.operate("token_new", name=bob.name, scope="act")["token"])
    api = Api(world, token, den)
    said: Any = api.ask("verbs/relay", b'{"speaker": "Al ice]", "text": "hello"}').data["result"]
    assert said["who"] == f"Al_ice_@{bob.name}"
    assert last_rows(bob, den) == [("chat", f"Al_ice_@{bob.name}", "hello")]
    refused = api.ask("verbs/relay", b'{"speaker": " ", "text": "hello"}')
    assert refused.status == 422 and refused.data["message"] == "speaker: must not be empty."
    asked = api.ask("verbs/relay", b'{"speaker": "eve", "text": "@guide what is a room?"}')
    assert len(asked.data["result"]["turns"]) == 1, "a model answers, as for the bridge itself"
