"""Mentioning a model: the guide answers, tools are called, answers are stopped.

The guide answers in two terminals.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.covers import covers


@covers("say", "expand")
def test_guide_answers_with_a_tool_call_in_both_terminals(
    alice: Person, bob: Person, room: str
) -> None:
    hers, his = alice.sit(100, 40, room=room), bob.sit(100, 40, room=room)
    his.type("half a li")
    hers.enter("@guide who is here?")
    for screen in (hers, his):
        screen.wait_for("guide → sshwarma:who")
        screen.wait_for("✓ sshwarma:who ")
        screen.wait_for("guide: Who is here:")
        screen.wait_for(f"    {bob.name} ")
    his.wait_for_input(f"{room}> half a li")
    hers.enter("/expand")
    hers.wait_for("guide tool.result")
    kinds = [entry["kind"] for entry in alice.json(f"history --room {room} --tools")["entries"]]
    assert kinds == ["tool.call", "tool.result"]


def test_exec_mention_waits_for_the_answer_and_prints_it(alice: Person) -> None:
    done = alice.run("@guide where am I?", b"")
    assert done.status == 0
    assert done.out.startswith("guide: You are here:")
    answered = alice.json("@guide sing")
    assert answered["answers"][0]["who"] == "guide"
    assert "not a language model" in answered["answers"][0]["text"]


@covers("run")
def test_run_of_a_tool_is_shown_in_the_room(alice: Person, bob: Person, room: str) -> None:
    his = bob.sit(100, 30, room=room)
    ran = alice.json(f"run sshwarma:note 'text=\"by hand\"' --room {room}")
    assert ran["ok"]
    his.wait_for(f"{alice.name} → sshwarma:note")
    his.wait_for("by hand")
    refused = alice.run(f"run sshwarma:put name=x text=y --room {room}")
    assert refused.status == 1
    assert "is not equipped here" in refused.err
    wrong = alice.run(f"run sshwarma:note nonsense --room {room}")
    assert wrong.status == 2
    assert "NAME=VALUE" in wrong.err


@covers("models", "wrap", "stats")
def test_models_wrap_and_stats_report_on_the_guide(alice: Person, room: str) -> None:
    assert "guide" in [model["name"] for model in alice.json("models")["models"]]
    alice.does(f"describe --room {room} A bench under north light.")
    alice.does(f"say --room {room} hello there")
    refusal = alice.run(f"wrap @guide --room {room}")
    assert refusal.err == "guide is not a language model: it reads only the question.\n"
    assert refusal.out == ""
    assert alice.json(f"stats --room {room}")["spent"] == []


class SlowModel(ThreadingHTTPServer):
    """OpenAI-like server that says a word, then nothing until the client leaves."""

    left: Event

    def __init__(self) -> None:
        self.left = Event()
        super().__init__(("127.0.0.1", 0), _Speaks)


class _Speaks(BaseHTTPRequestHandler):
    server: SlowModel

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        delta = {"index": 0, "delta": {"role": "assistant", "content": "Once upon a time"}}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        self.wfile.write(f"data: {json.dumps({**chunk, 'choices': [delta]})}\n\n".encode())
        self.wfile.flush()
        self.connection.settimeout(30)
        try:
            gone = self.connection.recv(1) == b""
        except OSError:
            gone = True
        if gone:
            self.server.left.set()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def slow_model() -> Iterator[SlowModel]:
    server = SlowModel()
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def slow_house(serve: Callable[..., Server], slow_model: SlowModel) -> Server:
    """A server in which @tale begins to answer, and goes on until it is stopped."""
    url = f"http://127.0.0.1:{slow_model.server_address[1]}/v1"
    model = {"name": "tale", "kind": "compatible", "model": "m", "base_url": url}
    return serve(models=json.dumps([model]))


def without_clock(value: Any) -> str:
    """A value as JSON, without the minute of the day that a context names."""
    return re.sub(r"\d\d:\d\d UTC", "", json.dumps(value))


@covers("wrap")
def test_wrap_shows_the_prompt_layer_by_layer(slow_house: Server) -> None:
    owner = slow_house.owner
    owner.does("describe A bench under north light.", "say hello there")
    wrapped = owner.json("wrap @tale")
    layers = {layer["name"]: layer for layer in wrapped["layers"]}
    assert "north light" in layers["room"]["text"]
    assert "hello there" in layers["log"]["text"]
    assert "sshwarma__who" in wrapped["tools"]
    assert wrapped["notices"] == []
    assert wrapped["total_tokens"] > wrapped["tool_tokens"] > 0
    assert without_clock(owner.json("wrap")) == without_clock(wrapped)


@covers("wrap")
def test_wrap_shows_the_request_as_its_provider_receives_it(
    slow_house: Server, slow_model: SlowModel
) -> None:
    """The request that would be sent, with its tools' schemas, and the one that was."""
    owner = slow_house.owner
    request = owner.json("wrap @tale")["request"]
    shown = owner.json("wrap @tale request")["body"]
    assert without_clock(shown) == without_clock(request)
    assert "north light" not in json.dumps(request)
    look = next(tool["function"] for tool in request["tools"] if "look" in tool["function"]["name"])
    assert look["parameters"]["properties"] == {"thing": {"type": "string"}}
    refusal = owner.run("wrap @tale last")
    assert (refusal.status, "No request was sent to" in refusal.err) == (1, True)
    hers = owner.sit()
    hers.enter("@tale tell me of the north light")
    hers.wait_for("tale: Once upon a time")
    sent = owner.json("wrap @tale last")
    assert "north light" in json.dumps(sent["body"]["messages"][-1])
    assert sent["body"]["tools"] == request["tools"]
    assert sent["sent_at"] > 0
    hers.enter("/wrap @tale last")
    hers.wait_for("What tale was sent at")
    hers.press("ctrl-c")


@covers("wrap")
def test_request_of_a_long_room_is_cut_as_it_will_be_sent(
    slow_house: Server, slow_model: SlowModel
) -> None:
    """Talk that is longer than the model's context is summarized in the same pieces."""
    owner = slow_house.owner
    url = f"http://127.0.0.1:{slow_model.server_address[1]}/v1"
    owner.does(f"model add long compatible m --url {url}", "model set long context_tokens 9000")
    lines = [f"say {number} {'the north light is dim ' * 160}" for number in range(12)]
    owner.run("batch", "\n".join(lines))
    request = json.dumps(owner.json("wrap @long request")["body"], ensure_ascii=False)
    assert "not shown" in request or "summarized" in request
    hers = owner.sit()
    hers.enter("@long tell me of the light")
    hers.wait_for("long: Once upon a time")
    sent = owner.json("wrap @long last")["body"]
    asked = json.loads(request.replace("  …", "  tell me of the light"))
    assert without_clock(sent) == without_clock(asked)
    hers.press("ctrl-c")


@covers("wrap")
def test_request_in_a_private_room_has_the_tools_that_a_visitor_gets(slow_house: Server) -> None:
    """The model is no member, and may look and talk there while it answers."""
    owner = slow_house.owner
    owner.does("create hideout", "room private --room hideout")
    shown = owner.json("wrap @tale request --room hideout")["body"]["tools"]
    assert "sshwarma__look" in {tool["function"]["name"] for tool in shown}
    hers = owner.sit(room="hideout")
    hers.enter("@tale who is here?")
    hers.wait_for("tale: Once upon a time")
    assert owner.json("wrap @tale last --room hideout")["body"]["tools"] == shown
    hers.press("ctrl-c")
    owner.does("join lobby")


@covers("room models")
def test_room_and_settings_say_who_answers_where(slow_house: Server) -> None:
    """Seen on the screen of the author; the model is also not listed there any more."""
    owner = slow_house.owner
    hers = owner.sit()
    hers.enter("/room models guide")
    hers.wait_for("Only guide may be called in lobby.")
    hers.enter("@tale tell me a tale")
    hers.wait_for("tale does not answer in lobby: the room names its models.")
    assert [model["name"] for model in owner.json("models")["models"]] == ["guide"]
    hers.enter("/room models all")
    hers.wait_for("Every model may be called in lobby.")
    hers.enter("/model add small ollama qwen3:1b")
    hers.wait_for("small")
    hers.enter("/model set small rooms den")
    hers.wait_for("rooms of small is now: den. There is no room den now.")
    hers.enter("ask @smal for it")
    hers.wait_for("small does not answer in lobby: an owner named its rooms.")
    hers.enter("ask @smlal for it")
    hers.wait_for("Did you mean @small?")
    assert owner.json("room models")["models"] is None


@covers("stop")
def test_answer_streams_and_can_be_stopped(slow_house: Server, slow_model: SlowModel) -> None:
    teller, other = slow_house.person("teller"), slow_house.person("other")
    hers, his = teller.sit(), other.sit()
    hers.enter("@tale tell me a tale")
    for screen in (hers, his):
        screen.wait_for("tale: Once upon a time")
    assert other.run("stop").status == 1  # only who asked, or an owner
    hers.press("ctrl-c")
    assert slow_model.left.wait(30)
    for screen in (hers, his):
        screen.wait_for(f"tale was stopped by {teller.name}")
    his.wait_for(lambda: his.count("Once upon a time") == 1)  # not what was coming besides
    hers.enter("@tale again")
    hers.enter("/stop @tale")  # without waiting for the answer's first word
    hers.wait_for("Stopped tale.")
    for one in (teller, other):
        one.hang_up()


@covers("stop", "note")
def test_late_pipe_is_reported_and_can_be_awaited(slow_house: Server) -> None:
    one = slow_house.person("one")
    piped: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    screen = one.sit()
    with subprocess.Popen([*one.ssh(), "@tale what failed?"], **piped) as late:
        screen.wait_for("tale: Once upon a time")
        assert late.stdin and late.stderr
        late.stdin.write(b"the log\n")
        late.stdin.flush()
        assert b"--stdin waits for it" in late.stderr.readline()
        assert one.run("stop @tale").status == 0
        late.communicate(timeout=30)
    with subprocess.Popen([*one.ssh(), "note what failed: --stdin"], **piped) as patient:
        with pytest.raises(subprocess.TimeoutExpired):
            patient.wait(2)
        patient.communicate(b"the log\n", timeout=30)
    screen.wait_for("the log")
    assert one.json("journal")["entries"][-1]["text"] == "what failed:\nthe log"
    one.hang_up()
