"""docs/tutorial.md, typed line by line into a real server with stock ssh."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.driver import Person, Screen, Server
from support.driver.model import Asked, Model

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"(\w+)> (.+)")
PROGRESS = re.compile(r"[⠀-⣿] \w+ \d")
COLUMNS, ROWS = 100, 60


@dataclass(frozen=True)
class Step:
    """A typed line, and the lines that must appear after it; `...` is any others."""

    typed: str
    room: str  # empty in a shell
    shown: tuple[str, ...]


def steps(block: str) -> Iterator[Step]:
    """What a block of the page says, typed line by typed line."""
    typed = room = ""
    shown: list[str] = []
    for line in block.splitlines():
        prompt = TYPED.fullmatch(line)
        if prompt is None and not line.startswith("$ "):
            shown.append(line)
            continue
        if typed or shown:
            yield Step(typed, room, tuple(shown))
        room, typed = prompt.groups() if prompt else ("", line.removeprefix("$ "))
        shown = []
    yield Step(typed, room, tuple(shown))


def match(expected: str, row: str) -> bool:
    """Whether a row is what the page says, with any text for each `…`."""
    parts = map(re.escape, expected.split("…"))
    return re.fullmatch(".+".join(parts), row) is not None


def find(shown: tuple[str, ...], rows: list[str], start: int) -> int | None:
    """The place behind the lines in the rows, or None.

    They stand one below the other, but where the page has `...`, and before the first.
    """
    at, gap = start, True
    for line in shown:
        if line == "...":
            gap = True
            continue
        places = range(at, len(rows)) if gap else range(at, min(at + 1, len(rows)))
        found = next((place for place in places if match(line, rows[place])), None)
        if found is None:
            return None
        at, gap = found + 1, False
    return at


@dataclass
class Reader:
    """Somebody who follows the page."""

    person: Person
    screen: Screen | None = None
    read: int = 0  # rows of the terminal that the page has shown

    def see(self, shown: tuple[str, ...]) -> None:
        """Wait until the terminal shows the lines, and no answer is on its way any more."""
        screen = self.screen
        assert screen is not None
        place: int | None = None

        def there() -> bool:
            nonlocal place
            rows = screen.everything
            place = find(shown, rows, self.read)
            return place is not None and not any(map(PROGRESS.match, rows[self.read :]))

        try:
            screen.wait_for(there)
        except AssertionError as error:
            raise AssertionError("\n".join(("the page says:", *shown, str(error)))) from None
        assert place is not None
        self.read = place


@dataclass
class Tutorial:
    """The page, the server it is followed at, and those who follow it."""

    server: Server
    model: Model
    readers: dict[str, Reader] = field(default_factory=dict)

    def follow(self) -> None:
        """Do what the page says."""
        for kind, name, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            if kind == "lua":
                (self.server.home / name).write_text(text, encoding="utf-8")
                continue
            assert kind == "sh", kind
            for step in steps(text):
                if step.room:
                    self.type(self.readers[name], step)
                elif step.typed:
                    self.run(name, step)
                else:
                    self.readers[name].see(step.shown)

    def type(self, reader: Reader, step: Step) -> None:
        """A line at a prompt; a verb is shown where typed, talk comes back."""
        assert reader.screen is not None
        reader.screen.wait_for_prompt(step.room)
        line = step.typed
        if line.startswith("/model add"):
            line += f" --url {self.model.url}"  # Ollama's place is taken
        reader.screen.enter(line)
        echo = (f"{step.room}> {line}",) if line.startswith("/") else ()
        reader.see((*echo, *step.shown))

    def run(self, name: str, step: Step) -> None:
        """A command in a shell."""
        words = shlex.split(step.typed)
        if words == ["make", "run"]:
            rows = self.server.log().splitlines()
            rows.append(f"ready ssh={self.server.host}:{self.server.port} http={self.server.http}")
        elif words[0].endswith("sshwarma"):
            done = self.server.cli(*words[1:])
            assert done.returncode == 0, done
            rows = (done.stderr + done.stdout).splitlines()
        else:
            assert words[:4] == ["ssh", "-p", "2222", f"{name}@127.0.0.1"], words
            reader = self.readers[name]
            if not words[4:]:
                reader.screen = reader.person.sit(COLUMNS, ROWS)
                reader.see(step.shown)
                return
            command, _, file = step.typed.partition("127.0.0.1 ")[2].partition(" < ")
            given = (self.server.home / file).read_text(encoding="utf-8")
            done_there = reader.person.run(command, given)
            assert done_there.status == 0, done_there
            rows = done_there.lines
        ports = {":2222": f":{self.server.port}", ":2280": f":{self.server.http.split(':')[1]}"}
        shown = tuple(
            re.sub(":2222|:2280", lambda port: ports[port.group()], line) for line in step.shown
        )
        assert find(shown, rows, 0) is not None, (shown, rows)


def answer(asked: Asked) -> Iterator[str | dict[str, Any]]:
    """What the model of the page does: call the tool, then say what came of it."""
    if asked["messages"][-1]["role"] == "tool":
        yield "Each of you pays 21 euros."
    else:
        yield {"name": "den__share", "arguments": {"total": 84, "people": 4}}


@pytest.fixture
def tutorial(serve: Callable[..., Server]) -> Iterator[Tutorial]:
    """A server of alice's, and bob with a key that it does not know."""
    model = Model(answer)
    server = serve(environ={"LOGNAME": "alice"})
    bob = server.stranger("bob")
    (server.home / "bob.pub").write_text(bob.public_key)
    people = (server.owner, bob)
    yield Tutorial(server, model, {person.name: Reader(person) for person in people})
    for person in people:
        person.hang_up()
    model.close()


def test_tutorial_can_be_followed(tutorial: Tutorial) -> None:
    tutorial.follow()
    alice, bob = (tutorial.readers[name] for name in ("alice", "bob"))
    assert alice.screen is not None
    assert alice.screen.wait_for_end() == 0
    assert bob.screen is not None
    assert bob.read > 30


def test_wrong_output_in_the_tutorial_is_detected() -> None:
    rows = ["den", "  Here: alice", "  Exits: none", "Created den."]
    assert find(("den", "  Here: …"), rows, 0) == 2
    assert find(("den", "...", "Created den."), rows, 0) == 4
    assert find(("den", "  Exits: none"), rows, 0) is None  # not one below the other
    assert find(("den",), rows, 1) is None  # was shown before
    assert find(("  Here: bob",), rows, 0) is None
