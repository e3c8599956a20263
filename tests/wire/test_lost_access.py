"""A model that somebody has asked does nothing more when they lose their access."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.fixtures import answering_with
from support.driver.model import Asked
from support.http_api import Api
from support.waiting import SECONDS

go = Event()


def _answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
    """Begin to answer, wait, then write into the journal."""
    if asked["messages"][-1]["role"] == "tool":
        yield "it is written"
        return
    yield "Once upon a time"
    go.wait(SECONDS)
    yield {"name": "sshwarma__note", "arguments": {"text": "written too late"}}


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with answering_with(_answers) as server:
        yield server


@pytest.fixture
def bob(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    go.clear()
    one = house.person(name("bob"))
    yield one
    go.set()
    one.hang_up()


def disable(house: Server, bob: Person, *_: str) -> None:
    house.operate("agents_disable", name=bob.name)


def revoke(house: Server, bob: Person, room: str, token_id: str) -> None:
    assert house.cli("token", "revoke", token_id).returncode == 0


def remove_key(house: Server, bob: Person, *_: str) -> None:
    (key,) = [one for one in house.operate("keys_list") if one["agent"] == bob.name]
    house.operate("keys_remove", name=bob.name, fingerprint=key["fingerprint"])


def ban(house: Server, bob: Person, *_: str) -> None:
    house.owner.does(f"ban {bob.name}")


def close(house: Server, bob: Person, room: str, token_id: str) -> None:
    """Close the room, in which `bob` is not any more."""
    house.owner.does(f"room member qwen --room {room}", f"room private --room {room}")


@pytest.mark.parametrize(
    ("door", "lose"),
    [("ssh", disable), ("ssh", remove_key), ("ssh", ban), ("http", revoke), ("http", close)],
)
def test_answer_ends_and_calls_nothing(
    house: Server, bob: Person, name: Callable[[str], str], door: str, lose: Any
) -> None:
    owner, room = house.owner, name("den")
    owner.does(f"create {room}", "equip room sshwarma:note")
    screen = owner.sit(room=room)
    token = bob.json("token new web --scope act") if door == "http" else {"id": ""}
    with subprocess.Popen(
        [*bob.ssh("-T"), f"say --room {room} @qwen please"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) if door == "ssh" else subprocess.Popen(["true"]) as asking:  # fmt: skip
        if door == "http":
            said = Api(house, token["token"], room).ask("verbs/say", b'{"text": "@qwen please"}')
            assert said.status == 200, said.body
        screen.wait_for("qwen: Once upon a time")
        lose(house, bob, room, token["id"])
        screen.wait_for("was stopped: who asked has lost")
        go.set()
        asking.wait(SECONDS)
    assert not owner.json(f"journal --room {room}")["entries"]
