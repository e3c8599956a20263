"""Requests with an Idempotency-Key run once, also over kill -9."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from urllib.request import Request, urlopen

import pytest

from sshwarma.common.limits import MAX_IDEMPOTENCY_KEY_CHARACTERS
from support.driver import Person, Server
from support.http_api import Answer, Api

REFUSED = 422


class KeyedApi(Api):
    """An API client that sends a key."""

    def send(self, key: str, path: str, /, **arguments: object) -> Answer:
        return self.ask(path, json.dumps(arguments).encode(), headers={"Idempotency-Key": key})


@pytest.fixture
def api(world: Server, bob: Person, room: str) -> KeyedApi:
    token = world.operate("token_new", name=bob.name, scope="act")["token"]
    return KeyedApi(world, token, room)


def said(person: Person, room: str) -> list[str]:
    entries = person.json(f"history --room {room}")["entries"]
    return [one["text"] for one in entries if one["kind"] == "chat"]


def test_second_request_has_the_answer_of_the_first(
    api: KeyedApi, alice: Person, room: str
) -> None:
    first, second = (api.send("k1", "verbs/say", text="once") for _ in range(2))
    assert (first.status, second.status) == (200, 200)
    assert first.body == second.body
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert api.send("k2", "verbs/say", text="once").status == 200
    assert said(alice, room) == ["once", "once"]
    line = [api.send("k3", "line", line="/say by line") for _ in range(2)]
    assert line[0].body == line[1].body
    assert said(alice, room)[-1] == "by line"
    assert len(said(alice, room)) == 3


def test_key_is_for_one_request(api: KeyedApi, alice: Person, room: str) -> None:
    assert api.send("k", "verbs/say", text="one").status == 200
    other = api.send("k", "verbs/say", text="two")
    assert other.status == REFUSED and "another request" in other.data["message"]
    assert api.send("k", "verbs/me", text="one").status == REFUSED
    for wrong in ("", "x" * (MAX_IDEMPOTENCY_KEY_CHARACTERS + 1)):
        assert api.send(wrong, "verbs/say", text="one").status == REFUSED
    assert said(alice, room) == ["one"]


def test_refused_request_may_be_sent_again(api: KeyedApi, alice: Person, room: str) -> None:
    refused = api.send("k", "verbs/join", room="not-yet-there")
    assert refused.status == 404
    again = api.send("k", "verbs/join", room="not-yet-there")
    assert again.status == 404 and "idempotency-replayed" not in again.headers


def test_requests_of_one_key_at_once_run_once(api: KeyedApi, alice: Person, room: str) -> None:
    answers: list[int] = []

    def send() -> None:
        answers.append(api.send("k", "verbs/say", text="at once").status)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {200, 503} and 200 in answers
    assert said(alice, room) == ["at once"]


def test_key_lasts_over_a_kill(serve: Callable[..., Server]) -> None:
    server = serve(limits__lines_per_10_seconds=1_000_000)
    token = server.operate("token_new", name=server.owner.name, scope="act")["token"]
    for number in range(10):
        api = KeyedApi(server, token, "lobby")
        thread = threading.Thread(target=_ignore, args=(api, f"k{number}", f"line {number}"))
        thread.start()
        if number % 3 == 0:
            assert api.send(f"k{number}", "verbs/say", text=f"line {number}").status in (200, 503)
        server.kill()
        thread.join()
        server.start()
        api = KeyedApi(server, token, "lobby")
        status = api.send(f"k{number}", "verbs/say", text=f"line {number}").status
        assert status in (200, 409), "it was cut, and what it said is there"
    assert said(server.owner, "lobby") == [f"line {number}" for number in range(10)]


def _ignore(api: KeyedApi, key: str, text: str) -> None:
    try:
        api.send(key, "verbs/say", text=text)
    except OSError:
        return  # it was killed meanwhile


def test_body_that_is_too_large_has_a_status_of_its_own(world: Server, api: KeyedApi) -> None:
    # A client that still sends its body, when the server has answered and closed, may miss that.
    answer = api.ask("verbs/say", b"{", headers={"Content-Length": "3000000"})
    assert (answer.status, answer.data["error"]) == (413, "too_large")


def test_streams_take_no_key(api: KeyedApi) -> None:
    answer = api.send("k", "stream", text="hello")
    assert answer.status == REFUSED and "streams" in answer.data["message"]


def test_root_of_the_api_lists_what_there_is(world: Server) -> None:
    for path in ("/api", "/api/v1"):
        with urlopen(f"http://{world.http}{path}", timeout=30) as answer:
            listed = json.load(answer)
        assert {"POST /api/v1/verbs/say", "GET /api/v1/events"} <= listed["paths"].keys()
        assert listed["docs"] == "/api/docs"
    request = Request(f"http://{world.http}/api/docs", headers={"Accept": "text/html"})
    with urlopen(request, timeout=30) as answer:
        page = answer.read().decode()
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "/api/v1/verbs/say" in page and "<script" not in page


def test_message_with_a_key_is_sent_once_over_ssh(alice: Person, bob: Person, room: str) -> None:
    bob.does(f"say --room {room} --once k1 hello", f"say --room {room} --once k1 hello")
    again = bob.json(f"say --room {room} hello --once=k1")
    assert said(alice, room) == ["hello"]
    (entry,) = alice.json(f"history 1 --room {room}")["entries"]
    assert again["seq"] == entry["seq"]
    other = bob.run(f"say --room {room} --once k1 good bye")
    assert other.status == 1 and "another message was sent with the key k1" in other.err
    alice.does(f"say --room {room} --once k1 hello")
    assert said(alice, room) == ["hello", "hello"], "keys of others are others"
    for _ in range(2):
        bob.does(f"tell --once t {alice.name} psst")
    for elsewhere in (f"tell --once t {bob.server.owner.name} psst", "say --once k1 hello"):
        refused = bob.run(elsewhere)
        assert refused.status == 1 and "another message was sent" in refused.err, elsewhere
    private = [one["text"] for one in alice.json(f"history @{bob.name}")["entries"]]
    assert private == ["psst"]
