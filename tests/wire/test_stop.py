"""`/stop`: who may stop what runs in a room, and what the room reads of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import serving
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack
from support.waiting import wait_until

pytestmark = needs_bubblewrap


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    """The owner of a room."""
    one = house.person(name("ann"))
    one.does(f"create {name('bench')}")
    yield one
    one.hang_up()


@pytest.fixture
def bob(house: Server, ann: Person, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("bob"))
    one.does(f"join {ann.json('files')['room']}")
    yield one
    one.hang_up()


@pytest.fixture
def tool(house: Server, ann: Person, name: Callable[[str], str]) -> str:
    """A tool that runs for ever."""
    kit_id = name("kit")
    assert house.owner.run("toolset import", pack(kit(kit_id)), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    return f"{kit_id}:wait_long"


def start(person: Person, command: str) -> subprocess.Popen[str]:
    """Start a command over ssh."""
    return subprocess.Popen(
        [*person.ssh("-T"), command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def count_programs(house: Server) -> int:
    """Return how many programs work on files of rooms."""
    return len(list((house.data_dir / "workspaces").glob("*/begun")))


@covers("stop")
def test_owner_of_the_room_stops_the_call_of_another(ann: Person, bob: Person, tool: str) -> None:
    hers, his = ann.sit(room=ann.json("files")["room"]), bob.sit(room=ann.json("files")["room"])
    his.enter(f"/run {tool}")
    hers.wait_for(f"→ {tool}")
    hers.enter("/stop")
    hers.wait_for(f"Stopped {tool} of {bob.name}.")
    his.wait_for(f"{tool} was stopped by {ann.name}.")
    assert f"{tool} was stopped by {ann.name}." in ann.does("history")


def test_own_call_is_stopped_from_another_connection(ann: Person, bob: Person, tool: str) -> None:
    screen = bob.sit(room=ann.json("files")["room"])
    screen.enter(f"/run {tool}")
    screen.wait_for(f"→ {tool}")
    assert bob.run("stop").out == f"Stopped {tool}.\n"
    screen.wait_for(f"{tool} was stopped by {bob.name}.")
    screen.enter("/look")  # the terminal goes on
    screen.wait_for("Exits")


def test_call_of_another_needs_the_moderate_right(ann: Person, bob: Person, tool: str) -> None:
    running = start(ann, f"run {tool}")
    running_calls = f"sql SELECT 1 FROM tool_calls WHERE tool_id = '{tool}'"
    wait_until(lambda: ann.json(running_calls)["rows"])
    refused = bob.run("stop")
    assert refused.status == 1
    assert f"needs the moderate right in {ann.json('files')['room']}" in refused.err
    assert f"for what is run by {ann.name}" in refused.err
    assert running.poll() is None
    ann.does("stop")
    assert f"{tool} was stopped by {ann.name}." in running.communicate()[0]
    assert running.returncode == 1


def test_command_of_another_is_stopped_and_the_room_reads_it(
    house: Server, ann: Person, bob: Person
) -> None:
    running = start(bob, "shell echo > begun; sleep 600")
    wait_until(lambda: count_programs(house) == 1)
    assert ann.run("stop").out == f"Stopped `echo > begun; sleep 600` of {bob.name}.\n"
    assert f"was stopped by {ann.name}." in running.communicate()[0]
    said = f"ran `echo > begun; sleep 600`: stopped by {ann.name}"
    assert said in ann.does("history")
    assert [one["path"] for one in ann.json("files")["files"]] == ["begun"]


def test_number_stops_one_of_two_calls(ann: Person, bob: Person, tool: str) -> None:
    room = ann.json("files")["room"]
    running = [start(bob, f"run {tool}"), start(ann, f"run {tool}")]
    wait_until(lambda: len(ann.json("look")["running"]) == 2)
    numbers = {one["by"]: one["number"] for one in ann.json("look")["running"]}
    shown = " ".join(ann.does("look").split())
    assert f"Running: {tool} for {bob.name} /stop {numbers[bob.name]}" in shown
    screen = bob.sit(room=room)
    screen.type("/stop \t")
    screen.wait_for(f" {tool} of {ann.name}")
    refused = bob.run(f"stop {numbers[ann.name]}")
    assert refused.status == 1 and f"for what is run by {ann.name}" in refused.err
    assert ann.does(f"stop {numbers[bob.name]}") == f"Stopped {tool} of {bob.name}.\n"
    assert f"{tool} was stopped by {ann.name}." in running[0].communicate()[0]
    assert [one["by"] for one in ann.json("look")["running"]] == [ann.name]
    unknown = ann.run(f"stop {numbers[bob.name]}")
    said = f"No call or command with the number {numbers[bob.name]} runs here. /look shows"
    assert unknown.status == 1 and said in unknown.err
    assert ann.does("stop") == f"Stopped {tool}.\n"
    running[1].communicate()


def test_stop_says_that_nothing_runs(ann: Person) -> None:
    said = "No model is answering here now, and no call or command runs."
    assert said in ann.run("stop").err
