"""kill -9 while people talk: what was shown is still there, the file is whole."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.model import Asked, Model

SHOWN_BEFORE_THE_KILL = (1, 7, 40, 3, 90, 20)


@pytest.mark.parametrize(
    "rounds", [3, pytest.param(50, marks=(pytest.mark.soak, pytest.mark.timeout(1200)))]
)
def test_displayed_messages_survive_kill_9(serve: Callable[..., Server], rounds: int) -> None:
    server = serve(limits__lines_per_10_seconds=1_000_000)
    people = [server.person(name) for name in ("ann", "ben", "eve")]
    shown: set[str] = set()
    numbers = itertools.count()
    kills = 0
    for enough in itertools.islice(itertools.cycle(SHOWN_BEFORE_THE_KILL), rounds):
        shells = [person.pipe() for person in people]
        said = _talk_until_killed(server, shells, numbers, enough)
        assert len(said) >= enough
        shown |= said
        _is_whole(server)
        kills += 1
        server.start()
        kept = [text for text in _history(people[0]) if text.startswith("word ")]
        assert len(kept) == len(set(kept))
        assert shown - set(kept) == set()
    assert kills == rounds
    seqs = [
        seq for (seq,) in server.query("SELECT seq FROM rows WHERE room_id = 'lobby' ORDER BY n")
    ]
    assert seqs == list(range(1, len(seqs) + 1))
    for person in people:
        person.hang_up()


def test_kill_9_leaves_no_presence_and_no_partial_change(
    serve: Callable[..., Server],
) -> None:
    server = serve(limits__lines_per_10_seconds=1_000_000)
    ann = server.person("ann")
    screen = ann.sit()
    made = []
    for number in range(5):
        screen.enter(f"/create hall{'abefg'[number]}")
        screen.wait_for_prompt(f"hall{'abefg'[number]}")
        made.append(f"hall{'abefg'[number]}")
        screen.enter(f"/put notes = {number}")
        screen.wait_for_count("Made notes in", number + 1)
    screen.enter("/create hallzz")
    server.kill()
    screen.wait_for_end()
    _is_whole(server)
    server.start()
    assert ann.run("who", b"", "-T").out.count("ann") == 0
    rooms = ann.run("rooms --json", b"", "-T").json["rooms"]
    assert {room["name"] for room in rooms} >= set(made)
    for room in made:
        assert ann.run(f"look --room {room}", b"", "-T").out.count("notes") == 1
    for (room_id,) in server.query("SELECT id FROM things WHERE kind='room' AND name='hallzz'"):
        assert server.query(f"SELECT 1 FROM room_members WHERE room_id='{room_id}'")
        assert server.query(f"SELECT 1 FROM equipped WHERE context_id='{room_id}'")
    ann.hang_up()


def test_displayed_answer_text_survives_kill_9(serve: Callable[..., Server]) -> None:
    """The answer stops after its second half, so that a test can wait for its text."""
    going_on = threading.Event()

    def answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
        yield "the first half of it"
        yield "\n\nthe second half"
        yield "\n---STATE---\nGoal: not for people"
        going_on.wait(60)

    model = Model(answers)
    server = serve(models=json.dumps([model.settings("qwen")]))
    ann = server.person("ann")
    screen = ann.sit()
    screen.enter("@qwen tell me")
    screen.wait_for("the second half")
    screen.wait_for(lambda: "second half" in str(server.query("SELECT text FROM drafts")))
    server.kill()
    going_on.set()
    screen.wait_for_end()
    server.start()
    entries = ann.run("history --json", b"", "-T").json["entries"]
    assert [(entry["kind"], entry["text"]) for entry in entries[-3:]] == [
        ("chat", "@qwen tell me"),
        ("chat", "the first half of it\n\nthe second half"),
        ("notice", "was cut off when the server stopped"),
    ]
    assert entries[-2]["meta"] == {"cut": True}
    assert server.query("SELECT 1 FROM drafts") == []
    ann.hang_up()
    model.close()


def _talk_until_killed(
    server: Server,
    shells: list[subprocess.Popen[bytes]],
    numbers: itertools.count[int],
    enough: int,
) -> set[str]:
    """Everybody talks without pause until the server is killed.

    It is killed after a number of shown lines. Return the lines that any of them was shown.
    """
    for shell in shells:
        assert shell.stdin
        shell.stdin.write(b"".join(b"word %d\n" % next(numbers) for _ in range(150)))
        shell.stdin.flush()
    first = shells[0].stdout
    assert first
    seen = b""
    while len(re.findall(rb": word \d+\n", seen)) < enough:
        data = first.read1(65536)  # type: ignore[attr-defined]
        assert data, f"the shell ended early:\n{seen[-500:]!r}\n{server.log()[-500:]}"
        seen += data
    server.kill()
    for shell in shells:
        assert shell.stdin
        with contextlib.suppress(BrokenPipeError):
            shell.stdin.close()
        assert shell.stdout
        seen += shell.stdout.read() + b"\n"
        shell.stdout.close()
        shell.wait(30)
    return {text.decode() for text in re.findall(rb"^\w+: (word \d+)\n", seen, re.M)}


def _history(person: Person) -> list[str]:
    texts: list[str] = []
    command = "history 1000"
    while True:
        page = person.run(f"{command} --json", b"", "-T").json
        texts = [entry["text"] for entry in page["entries"]] + texts
        if page["older"] is None:
            return texts
        command = f"history 1000 --before {page['older']['before']}"


def _is_whole(server: Server) -> None:
    if server.database is None:
        assert server.query("PRAGMA integrity_check") == [("ok",)]
        assert server.query("PRAGMA foreign_key_check") == []
