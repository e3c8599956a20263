"""Fixtures: `world`, a shared server; `serve`, one's own; `person`, `room`."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver.model import Answer, Model
from support.driver.person import Person
from support.driver.server import Server

# No letters that names.skeleton takes for others: names made of these never look alike.
_LETTERS = "abefghjkpqtxyz"
_suffixes = ("".join(letters) for letters in itertools.product(_LETTERS, repeat=3))

_TROUBLE = re.compile(r"\[(?:error|critical)\s*\]|Traceback \(most recent")


@contextlib.contextmanager
def homes() -> Iterator[Callable[[], Path]]:
    """Directories that are removed afterwards.

    Not pytest's own: their names grow too long for a Unix socket, and runs side by side clean up
    each other's.
    """
    with contextlib.ExitStack() as stack:

        def home() -> Path:
            made = tempfile.TemporaryDirectory(prefix="sshw-", ignore_cleanup_errors=True)
            return Path(stack.enter_context(made))

        yield home


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Server]:
    with homes() as home:
        yield from _shared(home())


def _shared(home: Path) -> Iterator[Server]:
    server = Server(
        home,
        limits__lines_per_10_seconds=1_000_000,
        ssh__max_connections_per_address=2000,
        ssh__max_connections_per_key=200,
        ssh__max_pending_per_address=100,
    )
    yield server
    assert server.stop() == 0


@pytest.fixture
def world(shared_server: Server) -> Iterator[Server]:
    """A running server for many tests: make people and rooms of your own in it."""
    with untroubled(shared_server):
        yield shared_server


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Start a server of one's own; settings as for `Server`."""
    started: list[Server] = []
    with homes() as home:

        def start(*flags: str, **settings: Any) -> Server:
            server = Server(home(), *flags, **settings)
            started.append(server)
            return server

        yield start
        for server in started:
            server.stop()
            _no_trouble(server.log())


@contextlib.contextmanager
def untroubled(server: Server) -> Iterator[None]:
    """Fail a test that uses a shared server if the server logs trouble meanwhile."""
    before = len(server.log())
    yield
    _no_trouble(server.log()[before:])


@contextlib.contextmanager
def serving(**options: Any) -> Iterator[Server]:
    """A server for the tests of a module, with options of `Server`."""
    with homes() as home:
        server = Server(home(), limits__lines_per_10_seconds=1_000_000, **options)
        yield server
        assert server.stop() == 0


@contextlib.contextmanager
def answering(model: Model) -> Iterator[Server]:
    """A server for the tests of a module, in which @qwen answers as `model` does."""
    with serving(models=json.dumps([model.settings("qwen")])) as server:
        yield server
        server.owner.hang_up()


@contextlib.contextmanager
def answering_with(answer: Answer) -> Iterator[Server]:
    """A server as of `answering`, whose model has a function for its answers."""
    model = Model(answer)
    with answering(model) as server:
        yield server
    model.close()


@pytest.fixture
def person(world: Server) -> Iterator[Callable[..., Person]]:
    """Make an agent with a key: `person("alice")`; its name gets a unique ending."""
    made: list[Person] = []

    def make(name: str = "someone", role: str = "member") -> Person:
        one = world.person(f"{name}-{next(_suffixes)}", role)
        made.append(one)
        return one

    yield make
    for one in made:
        one.hang_up()


@pytest.fixture
def alice(person: Callable[..., Person]) -> Person:
    return person("alice")


@pytest.fixture
def bob(person: Callable[..., Person]) -> Person:
    return person("bob")


@pytest.fixture
def owner(world: Server) -> Iterator[Person]:
    """The operator of the shared server."""
    found = world.owner
    found.does("leave") if "lobby" not in found.run("vibe").out else None
    yield found
    found.hang_up()


@pytest.fixture
def name() -> Callable[[str], str]:
    """A name nobody else uses: `name("studio")`."""
    return lambda base: f"{base}-{next(_suffixes)}"


@pytest.fixture
def room(alice: Person, name: Callable[[str], str]) -> str:
    """A room that alice has made and stands in."""
    made = name("studio")
    alice.does(f"create {made}")
    return made


def _no_trouble(log: str) -> None:
    found = _TROUBLE.search(log)
    assert found is None, (
        f"the server reported trouble:\n{log[max(0, found.start() - 200) :][:4000]}"
    )
