"""Models by verb: added, changed, limited and removed over ssh while answering."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sshwarma.verbs.model import MODEL_FIELDS
from support.driver import Person, Screen, Server
from support.driver.aimock import Mock, mocking
from support.driver.covers import covers
from support.driver.fixtures import homes

KEY = "sk-wire-0123456789abcdefgh"
OPENAI = "openai gpt-5.6-luna"

LOOK = {"name": "sshwarma__who", "arguments": "{}", "id": "call_a"}
BUSY = {"status": 429, "error": {"message": "slow down", "type": "rate_limit_error"}}
COUNTED = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}

FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "who is there", "hasToolResult": False},
        "response": {"content": "Let me see.", "toolCalls": [LOOK]},
    },
    {
        "match": {"userMessage": "who is there", "hasToolResult": True},
        "response": {"content": "You are."},
    },
    {"match": {"userMessage": "again and again"}, "response": {"toolCalls": [LOOK]}},
    {
        "match": {"userMessage": "last step of this turn"},
        "response": {"content": "So far: a lobby."},
    },
    {
        "match": {"userMessage": "at length"},
        "response": {"content": " ".join(f"a word or two, {n}" for n in range(400))},
        "latency": 50,
        "chunkSize": 6,
    },
    {"match": {"userMessage": "be patient"}, "response": BUSY | {"retryAfter": 40}},
    {
        "match": {"userMessage": "one word"},
        "response": {"content": "ready", "usage": COUNTED},
    },
    {
        "match": {"userMessage": "hello"},
        "response": {"content": "Hello from the mock.", "usage": COUNTED},
        "chunkSize": 4,
    },
]


@pytest.fixture(scope="module")
def mock() -> Iterator[Mock]:
    with mocking(FIXTURES) as made:
        yield made


@pytest.fixture(scope="module")
def house(mock: Mock) -> Iterator[Server]:
    """A server with one model in its settings, and a key in its environment."""
    filed = {"name": "filed", "kind": "openai", "model": "gpt-5.6-luna", "key_env": "OUR_KEY"}
    with homes() as home:
        server = Server(
            home(),
            environ={"OUR_KEY": KEY},
            models=json.dumps([filed | {"base_url": f"{mock.url}/v1"}]),
            limits__lines_per_10_seconds=1_000_000,
        )
        yield server
        assert server.stop() == 0
        assert "Traceback" not in server.log()


ROOMS = (f"den-{number}" for number in itertools.count())


@pytest.fixture
def boss(house: Server) -> Iterator[Person]:
    """The owner, in a new room: a model gets all messages, and the mock sees them."""
    owner = house.owner
    owner.does(f"create {next(ROOMS)}")
    yield owner
    owner.does("leave")
    owner.hang_up()


def add(boss: Person, mock: Mock, name: str, what: str = OPENAI, **flags: str) -> str:
    """Add a model that the mock answers for."""
    options = {"url": f"{mock.url}/v1", "key-env": "OUR_KEY"} | flags
    words = " ".join(f"--{option} {value}" for option, value in options.items())
    return boss.does(f"model add {name} {what} {words}")


def sit(boss: Person) -> Screen:
    return boss.sit(room=boss.json("look")["name"])


def answer(person: Person, line: str) -> str:
    done = person.run(line)
    assert done.status == 0, done
    return done.out


@covers("model add", "model set", "model show", "model test", "model remove")
def test_a_model_is_added_answers_and_is_removed(boss: Person, mock: Mock) -> None:
    screen = sit(boss)
    assert "luna answers now" in add(boss, mock, "luna")
    screen.enter("@luna hello")
    screen.wait_for("luna: Hello from the mock.")
    assert "luna" in [known["name"] for known in boss.json("models")["models"]]
    boss.does("model set luna prompt You are terse, and  kind.")
    answer(boss, "@luna hello to you")
    asked = mock.asked("hello to you")[-1]["body"]
    assert "You are terse, and  kind." in json.dumps(asked)
    shown = boss.json("model show luna")
    assert shown["key"] == "found in the environment variable OUR_KEY"
    assert shown["price"] == "its provider's list price"
    assert shown["tokens_today"] == 2200
    assert shown["cost_today"] > 0
    assert shown["prompt"] == "You are terse, and  kind."
    tested = boss.json("model test luna")
    assert tested["text"] == "ready"
    assert 0 < tested["first_seconds"] <= tested["seconds"] < 60
    assert boss.json("model show luna")["tokens_today"] == 3300
    screen.enter("/model remove luna")
    screen.wait_for("Removed luna. What it said stays. /model add brings it back.")
    received = "luna does not answer now: it was removed. /models shows who answers."
    assert received in boss.does("@luna hello are you there")
    screen.enter("@luna hello again")
    screen.wait_for(received)
    assert not mock.asked("hello are you there")
    assert "luna" not in [known["name"] for known in boss.json("models")["models"]]
    said = boss.json("history 50")["entries"]
    assert "luna" in [entry["who"] for entry in said if "from the mock" in entry["text"]]
    add(boss, mock, "luna")
    assert "Hello from the mock." in answer(boss, "@luna hello once more")
    assert boss.json("model show luna")["tokens_today"] == 4400  # the same agent as before
    boss.does("model remove luna")


def test_added_model_survives_a_restart(boss: Person, house: Server, mock: Mock) -> None:
    add(boss, mock, "stays", prompt="'Stay as you are.'")
    boss.does("model set stays turn_tokens none", "model set stays day_tokens 4000")
    answer(boss, "@stays hello")
    before = boss.json("model show stays")
    boss.hang_up()
    assert house.stop() == 0
    house.start()
    after = boss.json("model show stays")
    assert after == before
    assert dict(after["limits"])["turn_tokens"] == "no limit"
    assert answer(boss, "@stays hello") == "stays: So far: a lobby.\n", (
        "no tokens for a second step"
    )
    boss.does("model set stays day_tokens 2500")
    refused = answer(boss, "@stays hello")
    assert "of 2,500 are left for today (UTC)" in refused
    assert "an owner can change its day_tokens (verb model set)" in refused
    boss.does("model set stays day_tokens -")
    assert "Hello from the mock." in answer(boss, "@stays hello")
    boss.does("model remove stays")


def test_every_setting_of_model_show_can_be_set(boss: Person, mock: Mock, tmp_path: Path) -> None:
    """/model show names each setting as /model set does; a key file is read when set."""
    add(boss, mock, "named")
    shown = boss.does("model show named").split("Settings:")[1]
    named = re.findall(r"^ +([a-z_]+) ", shown, re.MULTILINE)
    refused = boss.run("model set named address x")
    assert f"Choose one of: {', '.join(MODEL_FIELDS)}." in " ".join(refused.err.split())
    assert sorted(named) == sorted(MODEL_FIELDS)
    boss.does("model set named key_env -")
    private, readable = tmp_path / "private.key", tmp_path / "readable.key"
    for file, mode in ((private, 0o600), (readable, 0o644)):
        file.write_text("secret")
        file.chmod(mode)
    for file, why in ((readable, "other users can access the file"), (tmp_path, "cannot read")):
        refused = boss.run(f"model set named key_file {file}")
        assert refused.status == 2
        assert f"key_file: {why}" in " ".join(refused.err.split())
    assert dict(boss.json("model show named")["settings"])["key_file"] == "none"
    boss.does(f"model set named key_file {private}")
    assert "Hello from the mock." in answer(boss, "@named hello")
    boss.does("model remove named")


@covers("model disable", "model enable")
def test_model_can_be_disabled_and_enabled(boss: Person, mock: Mock) -> None:
    add(boss, mock, "blinks")
    screen = sit(boss)
    screen.enter("@blinks speak at length")
    screen.wait_for("blinks: a word or two")
    boss.does("model disable blinks")
    screen.wait_for(f"blinks was stopped by {boss.name}")
    assert boss.does("model off blinks").strip() == "blinks is already disabled."
    assert boss.json("model show blinks")["state"] == "disabled"
    assert "blinks does not answer now: it is disabled." in boss.does("@blinks hello when disabled")
    assert not mock.asked("hello when disabled")
    boss.does("model enable blinks")
    assert boss.does("model on blinks").strip() == "blinks is already enabled."
    assert "Hello from the mock." in answer(boss, "@blinks hello when enabled")
    boss.does("model remove blinks")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("model add", "/model add needs NAME"),
        ("model show", "/model show needs NAME"),
        ("model add x", "/model add needs KIND"),
        ("model add x openai", "A model of kind openai needs a model id."),
        ("model add x local model.gguf", "the absolute path of a GGUF file on the server"),
        ("model add x local /etc/passwd", "/etc/passwd is not a GGUF file."),
        ("model add x local /etc", "/etc is not a regular file."),
        ("model add x local --url http://127.0.0.1/v1", "it has no --url and no key"),
        ("model add Luna openai gpt", "Luna cannot be the name of an agent."),
        ("model add x opena gpt", "kind: choose one of: openai, "),
        ("model add x compatible m", "kind compatible needs --url."),
        ("model add x openai m --url nonsense", "--url: must be a URL, such as"),
        (
            "model add x openai m --key-env A --key-file /b",
            "give --key-env or --key-file, not both",
        ),
        ("model add filed openai m", "Model filed already exists in sshwarma.toml"),
        ("model add guide openai m", "Model guide already exists (built in)"),
        ("model add system openai m", "reserved name"),
        ("model set filed prompt x", "It is set in sshwarma.toml, on the server."),
        ("model remove filed", "It is set in sshwarma.toml, on the server."),
        ("model set guide prompt x", "guide is built in and cannot be changed here."),
        ("model set filed", "/model set needs FIELD"),
        ("model set filed prompt", "/model set needs VALUE"),
        ("model dance filed", "Unknown action dance of /model."),
        ("model set nobody prompt x", "Unknown model nobody."),
        ("model list of things", "Unexpected word of."),
        ("model show filed too", "Unexpected word too."),
        ("model test guide", "guide follows built-in rules and has no provider to test."),
    ],
)
def test_invalid_model_command_is_refused(boss: Person, line: str, says: str) -> None:
    refused = boss.run(line)
    assert refused.status in (1, 2), refused
    assert says in " ".join(refused.err.split())
    assert "Value error" not in refused.err


def test_model_verbs_need_the_own_right(house: Server) -> None:
    other = house.person("other", "admin")
    refused = other.run("model list")
    assert "needs the own right" in refused.err
    assert other.run("models").status == 0
    other.hang_up()


def test_invalid_model_setting_is_underlined(boss: Person, mock: Mock) -> None:
    add(boss, mock, "pointed")
    screen = sit(boss)
    screen.enter("/model set pointed turn_steps many")
    screen.wait_for("turn_steps: must be a whole number (got many)")
    lines = screen.lines
    at = next(i for i, text in enumerate(lines) if text.strip() == "^^^^")
    assert lines[at - 1].index("many") == lines[at].index("^")
    boss.does("model remove pointed")


def test_cost_limit_needs_a_known_price(boss: Person, mock: Mock) -> None:
    add(boss, mock, "local", "compatible some-model")
    for line in ("model set local turn_cost 1", "model set local day_cost 1"):
        refused = boss.run(line)
        assert refused.status == 2
        assert "The price of some-model is unknown" in refused.err
    answer(boss, "@local hello")  # 1000 sent, 100 received, without a price
    assert "Set price_out too" in boss.does("model set local price_in 0.1")
    boss.does("model set local price_out 0.2", "model set local turn_cost 0.00019")
    for line in ("model show local", "model list"):
        assert "1100 tokens, $0.00012" in boss.does(line), "as the limit says below"
    assert boss.run("model set local price_in -").status == 2  # while the limit needs it
    boss.does("model set local day_cost 0.00012")
    too_late = answer(boss, "@local hello")
    assert "it has used $0.00012 of $0.00012 for one day" in too_late
    boss.does("model remove local")


def test_every_turn_limit_ends_the_turn_with_a_notice(boss: Person, mock: Mock) -> None:
    add(boss, mock, "bound")
    limits = {
        "turn_seconds 5": ("speak at length", "was stopped after 5 s (time limit of a turn)"),
        "turn_tokens 5": ("who is there", "the limit of a turn is 5"),
    }
    for limit, (words, says) in limits.items():
        boss.does(f"model set bound {limit}")
        name = limit.split()[0]
        said = answer(boss, f"@bound {words}")
        assert says in said
        assert f"an owner can change its {name} (verb model set)" in " ".join(said.split())
        boss.does(f"model set bound {name} -")
        if name == "turn_seconds":
            assert "a word or two" in said  # what was said is kept
            used = boss.json("model show bound")["tokens_today"]
            assert used > 10  # and counted, though the provider never said what it was
        if name == "turn_tokens":
            assert "Let me see." not in said  # it was not sent
    boss.does("model remove bound")


def test_last_step_of_a_turn_ends_with_an_answer(boss: Person, mock: Mock) -> None:
    add(boss, mock, "steps")
    boss.does("model set steps turn_steps 2")
    assert "So far: a lobby." in answer(boss, "@steps look again and again")
    boss.does("model set steps turn_steps -", "model set steps turn_tokens 3500")
    assert "So far: a lobby." in answer(boss, "@steps look again and again")
    boss.does("model remove steps")


def test_retry_wait_is_shown_and_can_be_stopped(boss: Person, mock: Mock) -> None:
    add(boss, mock, "busy")
    screen = sit(boss)
    screen.enter("@busy be patient")
    screen.wait_for("· waiting 4")
    assert "s (rate limited)" in screen.text
    screen.press("ctrl-c")
    screen.wait_for("busy was stopped")
    # The screen waits 30 s at most, less than the 40 s after which it is asked again.
    assert len(mock.asked("be patient")) == 1
    assert boss.json("model show busy")["tokens_today"] == 0  # it was never answered
    boss.does("model remove busy")


def test_change_of_provider_keeps_the_conversation(boss: Person, mock: Mock) -> None:
    add(boss, mock, "turns")
    said = answer(boss, "@turns who is there")
    assert "You are." in said
    boss.does(
        "model set turns kind anthropic",
        "model set turns model claude-sonnet-4-6",
        f"model set turns base_url {mock.url}",
    )
    boss.does("@turns who is there now")
    sent = [
        entry["body"]
        for entry in mock.asked("who is there now")
        if str(entry["body"].get("model", "")).startswith("claude")
    ]
    assert len(sent) == 2
    for body in sent:
        _is_well_formed(body["messages"])
        said_before = json.dumps(body["messages"])
        assert "to turns> who is there" in said_before
        assert "Let me see." in said_before
    assert not any(message.get("tool_calls") for message in sent[0]["messages"])
    assert any(message.get("tool_calls") for message in sent[1]["messages"])
    boss.does("model remove turns")


def _is_well_formed(messages: list[dict[str, Any]]) -> None:
    """A person begins, roles are known; each call is answered next, once, alone."""
    received = [message for message in messages if message["role"] != "system"]
    assert received[0]["role"] == "user"
    waiting: list[str] = []
    for message in received:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert message["role"] in ("user", "assistant")
        assert not waiting
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        assert len(set(waiting)) == len(waiting)
        assert waiting or message["content"]
    assert not waiting


@covers("model found", "model list")
def test_model_found_prints_the_line_that_adds_a_model(boss: Person, house: Server) -> None:
    found = boss.json("model found")["offers"]
    assert all({"name", "about", "kind", "model", "url"} == set(offer) for offer in found)
    assert {known["name"] for known in boss.json("model")["models"]} >= {"filed", "guide"}
    listed = boss.does("model list")
    assert re.search(r"@filed +gpt-5.6-luna by openai +settings file +0 tokens", listed)


def test_last_error_is_shown_until_the_next_success(boss: Person, mock: Mock) -> None:
    answers = add(boss, mock, "keyless", **{"key-env": "NOT_THERE"})
    assert "keyless was added, and cannot answer yet: no key in" in answers
    assert "could not answer: no key" in answer(boss, "@keyless hello")
    shown = boss.json("model show keyless")
    assert shown["state"] == "could not answer"
    assert shown["last_error"].endswith("ago: no key in the environment variable NOT_THERE")
    assert shown["key"].startswith("not found: ")
    boss.does("model set keyless key_env OUR_KEY")
    assert "Hello from the mock." in answer(boss, "@keyless hello")
    assert boss.json("model show keyless")["state"] == "answers"
    boss.does("model remove keyless")
