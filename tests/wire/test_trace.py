"""When requests and calls ran, and what /wrap and /stats say of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import answering_with
from support.driver.model import Asked, question


def _answers(asked: Asked) -> Iterator[str | dict[str, object]]:
    is_first = asked["messages"][-1]["role"] != "tool"
    if "look twice" in question(asked) and is_first:
        yield {"name": "look"}
        yield {"name": "who"}
    else:
        yield f"answer to {question(asked).removeprefix('@qwen ')}"


@pytest.fixture(scope="module")
def shared_server() -> Iterator[Server]:
    with answering_with(_answers) as server:
        yield server


@covers("trace")
def test_trace_has_requests_and_calls_in_order_of_time(
    alice: Person, room: str, name: Callable[[str], str]
) -> None:
    assert "No model or tool was called" in alice.does("trace")
    alice.does("@qwen look twice", "run sshwarma:look")
    found = alice.json("trace")
    (turn,) = found["turns"]
    assert (turn["by"], turn["agent"], turn["status"]) == (alice.name, "qwen", "completed")
    assert [one["tool"] for one in turn["calls"]] == ["sshwarma:look", "sshwarma:who"]
    assert [one["tool"] for one in found["calls"]] == ["sshwarma:look"]
    first, second = turn["requests"]
    assert turn["at"] <= first["at"] <= first["ended_at"]
    for call in turn["calls"]:
        assert first["ended_at"] <= call["at"] <= call["ran_at"] <= call["ended_at"]
        assert call["ended_at"] <= second["at"]
    assert second["ended_at"] <= turn["ended_at"]
    assert (turn["prompt_tokens"], turn["completion_tokens"]) == (200, 20)
    drawn = alice.does("trace 1")
    assert "qwen" in drawn and "sshwarma:who" in drawn and "100 in, 10 out" in drawn


@covers("wrap")
def test_wrap_diff_shows_what_changed_since_the_last_request(alice: Person, room: str) -> None:
    assert alice.run("wrap @qwen diff").status != 0
    alice.does("@qwen one", "say in between")
    diff = alice.json("wrap @qwen diff")
    assert any(line.startswith("+") and "in between" in line for line in diff["lines"])
    assert 0 < diff["equal_tokens"] < diff["equal_characters"] < diff["characters"]
    now = alice.json("wrap @qwen request")["body"]
    last = alice.json("wrap @qwen last")["body"]
    assert json.dumps(now["tools"]) == json.dumps(last["tools"])
    assert diff["equal_characters"] > len(json.dumps(now["tools"], ensure_ascii=False))
    assert "in between" in alice.does("wrap @qwen diff")


@covers("stats")
def test_stats_of_days_tell_each_day(alice: Person, room: str) -> None:
    alice.does("@qwen one")
    assert alice.json("stats")["days"] == []
    found = alice.json("stats --days 7")
    (day,) = found["days"]
    assert (day["answers"], day["total_tokens"]) == (1, 110) == (1, found["total"]["total_tokens"])
    assert day["day"] == found["since"][:10]
    assert "By day, in UTC:" in alice.does("stats --days 1")


@covers("message list")
def test_listed_turns_name_their_parent_and_the_head(alice: Person, room: str) -> None:
    alice.does("@qwen one", "@qwen two", "retry")
    first, second, again = alice.json("message list")["turns"]
    assert first["parent"] == "" and second["parent"] == again["parent"] == first["id"]
    assert [one["head"] for one in (first, second, again)] == [False, False, True]
