"""Questions for an approval: all that they ask for, and no more, is seen."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest

from support.driver import Person, Screen, Server
from support.driver.fixtures import serving
from support.http_api import post_mcp
from support.sandboxes import needs_bubblewrap
from support.waiting import wait_until

pytestmark = needs_bubblewrap


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"))
    one.does(f"create {name('bench')}", "equip room workspace:*")
    yield one
    one.hang_up()


@pytest.fixture
def bob(house: Server, ann: Person, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("bob"))
    one.does(f"join {ann.json('files')['room']}")
    yield one
    one.hang_up()


@pytest.fixture
def screen(ann: Person) -> Iterator[Screen]:
    shown = ann.sit(room=ann.json("files")["room"])
    yield shown
    shown.close()


def ask(person: Person, command: str) -> subprocess.Popen[str]:
    """Ask to run a command, and wait for the answer in a process of its own."""
    call = f"run workspace:run_command {json.dumps({'command': command})}"
    return subprocess.Popen(
        [*person.ssh("-T"), call], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("empty", [400, 298])  # the last line of 300 arguments is cut
def test_question_that_is_cut_is_allowed_when_all_of_it_was_read(
    ann: Person, bob: Person, screen: Screen, empty: int
) -> None:
    asking = ask(bob, "ls\n" + "\n" * empty + "echo hidden > made")
    screen.wait_for("more character")
    screen.press("f8")
    screen.wait_for("longer than what the question shows")
    (number,) = [one["number"] for one in ann.json("approvals")["waiting"]]
    assert ann.run(f"allow {number}").status == 0, "it was listed, with all of its arguments"
    assert "exit status 0" in asking.communicate()[0]
    assert [one["path"] for one in ann.json("files")["files"]] == ["made"]


def test_wrapped_arguments_look_like_no_other(ann: Person, bob: Person, screen: Screen) -> None:
    asking = ask(bob, "echo hi" + " " * 70 + "cwd: x" + " " * 70 + "timeout: 7")
    screen.wait_for("(F8), or /deny")
    rows = [row for row in screen.lines if "timeout: 7" in row and "⚙" not in row]
    assert rows == [" " * 10 + "timeout: 7"]
    ann.does("deny")
    asking.communicate()


def test_answer_is_for_the_question_that_was_read(ann: Person, bob: Person, screen: Screen) -> None:
    first = ask(bob, "ls")
    screen.wait_for("command: ls")
    first.kill()
    first.communicate()
    screen.wait_for("is not asked for any more")
    second = ask(bob, "echo other > made")
    wait_until(lambda: ann.json("approvals")["waiting"])
    screen.press("f8")
    screen.wait_for("took the place of another just now")
    (number,) = [one["number"] for one in ann.json("approvals")["waiting"]]
    ann.does(f"allow {number}")
    assert "exit status 0" in second.communicate()[0]


def test_keys_are_offered_for_the_only_question(
    house: Server, ann: Person, bob: Person, screen: Screen, name: Callable[[str], str]
) -> None:
    """A key says no number, and so cannot be meant for one of two questions."""
    eve = house.person(name("eve"))
    eve.does(f"join {ann.json('files')['room']}")
    calls = [ask(bob, "echo one")]
    screen.wait_for("(F8), or /deny")
    first = ann.json("approvals")["waiting"][0]["number"]
    calls.append(ask(eve, "echo two"))
    screen.wait_for(f"/allow {first + 1}, or /deny {first + 1} and why")
    both = f"{first} (workspace:run_command), {first + 1} (workspace:run_command)"
    screen.press("f8")
    screen.wait_for(f"Several calls wait here: {both}.")  # and how, on the next line
    screen.wait_for(f" one: /allow {first}")
    screen.press("f9", "enter")
    screen.wait_for(f" one: /deny {first}")
    ann.does(f"allow {first + 1}", f"deny {first}")
    assert "two" in calls[1].communicate()[0]
    assert "denied" in calls[0].communicate()[0]
    eve.hang_up()


def test_person_is_asked_whose_program_was_used_last(
    house: Server, ann: Person, bob: Person, screen: Screen
) -> None:
    """An MCP client of a person answers no questions, but the person's terminal does."""
    token = house.operate("token_new", name=ann.name, scope="act")["token"]
    assert post_mcp(house, token) == 200
    asking = ask(bob, "ls")
    screen.wait_for("asks to run workspace:run_command")
    ann.does("allow")
    assert "exit status 0" in asking.communicate()[0]


def test_key_does_not_allow_a_question_that_is_longer_than_the_screen(
    ann: Person, bob: Person
) -> None:
    screen = ann.sit(60, 12, room=ann.json("files")["room"])
    asking = ask(bob, "echo hidden > made\n" + "true\n" * 12 + "ls")
    screen.wait_for("(F8), or /deny")
    assert not any("hidden" in row for row in screen.lines)
    (number,) = [one["number"] for one in ann.json("approvals")["waiting"]]
    screen.press("f8")
    screen.wait_for("is longer than your screen")
    screen.wait_for(f": /allow {number}")
    screen.enter("/allow")
    screen.wait_for_count("is longer than your screen", 2)
    assert ann.json("files")["count"] == 0
    screen.enter(f"/allow {number}")
    assert "exit status 0" in asking.communicate()[0]
    screen.close()


@pytest.mark.parametrize("size", [(50, 30), (120, 30), (100, 20)])
def test_question_of_another_size_is_drawn_again_before_the_key_allows_it(
    ann: Person, bob: Person, screen: Screen, size: tuple[int, int]
) -> None:
    """At 50 columns its end was cut off, in a terminal that wraps no rows by itself."""
    asking = ask(bob, "echo " + "shown " * 14 + "> made")
    screen.wait_for("(F8), or /deny")
    screen.resize_and_wait(*size)
    screen.press("f8")
    screen.wait_for("Here it is again")
    # The first one may have been repainted at the new size, and so be cut.
    screen.wait_for(lambda: "(F8), or /deny" in screen.text.partition("Here it is again")[2])
    assert "changed its size" in " ".join(screen.text.split())
    assert ann.json("files")["count"] == 0
    screen.press("f8")
    assert "exit status 0" in asking.communicate()[0]
    assert screen.count("Here it is again") == 1


def test_question_that_scrolled_away_is_drawn_again_before_the_key_allows_it(
    ann: Person, bob: Person, screen: Screen
) -> None:
    asking = ask(bob, "echo hi > made")
    screen.wait_for("(F8), or /deny")
    for number in range(30):
        bob.run(f"say line {number}")
    screen.wait_for("line 29")
    screen.press("f8")
    screen.wait_for("is not on your screen, or not all of it")
    screen.wait_for(lambda: any("command: echo hi > made" in row for row in screen.lines))
    assert ann.json("files")["count"] == 0
    screen.press("f8")
    assert "exit status 0" in asking.communicate()[0]
