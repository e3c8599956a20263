"""What is recorded of a call of a toolset: its state, its files, its end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.driver.model import received
from support.driver.script import Script, speaking
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack
from support.waiting import wait_until

pytestmark = needs_bubblewrap

TOOLS = '''
import time


def hold(workspace):
    """Work until there is a file `go`."""
    (workspace / "begun").touch()
    while not (workspace / "go").exists():
        time.sleep(0.02)
    (workspace / "go").unlink()
    (workspace / "begun").unlink()
    return "held"
'''


@pytest.fixture(scope="module")
def model() -> Iterator[Script]:
    with speaking("qwen") as script:
        yield script


@pytest.fixture(scope="module")
def house(model: Script) -> Iterator[Server]:
    with serving(models=model.settings) as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"), role="admin")
    one.does(f"create {name('den')}")
    yield one
    one.hang_up()


@pytest.fixture
def kit_id(ann: Person, name: Callable[[str], str]) -> str:
    """A kit with the tools above, equipped in the room."""
    made = name("kit")
    functions = tuple(
        line[4:].partition("(")[0] for line in TOOLS.splitlines() if line[:4] == "def "
    )
    files = kit(made, functions=functions) | {"tools/kit.py": TOOLS}
    assert ann.run("toolset import", pack(files), "-T").status == 0
    ann.does(f"equip room {made}:*")
    return made


def start(person: Person, command: str) -> subprocess.Popen[str]:
    """Start a command over ssh."""
    return subprocess.Popen(
        [*person.ssh("-T"), command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def find_begun(house: Server) -> list[Path]:
    """Return the folders in which `hold` works."""
    return [path.parent for path in (house.data_dir / "workspaces").glob("*/begun")]


def read_calls(person: Person, columns: str) -> list[list[Any]]:
    """Return columns of the calls in the room, the oldest first."""
    room = person.json("files")["room"]
    rows: list[list[Any]] = person.json(
        f"sql SELECT {columns} FROM tool_calls AS call JOIN chats ON chats.id = call.chat_id"
        f" WHERE chats.name = '{room}' ORDER BY call.id"
    )["rows"]
    return rows


def test_calls_that_a_killed_server_left_open_end_in_the_room(
    house: Server, model: Script, ann: Person, kit_id: str
) -> None:
    """One of a person by a script, and one of a model in a turn."""
    ann.run("tool new twice", f"return host.call('{kit_id}:hold', {{}})".encode())
    nested = start(ann, "run twice")
    wait_until(lambda: find_begun(house))
    model.will("qwen", [(f"{kit_id}__hold", {})])
    asking = start(ann, "say @qwen hold it")
    wait_until(lambda: len(read_calls(ann, "call.id")) == 3)
    house.kill()
    for one in (nested, asking):
        one.communicate()
    house.start()
    said = "was cut off when the server stopped"
    assert read_calls(ann, "call.status, call.error") == [["error", said]] * 3
    entries = ann.json("history show 100")["entries"]
    calls = {one["seq"]: one["meta"]["tool"] for one in entries if one["kind"] == "tool.call"}
    ends = [one for one in entries if said in one["text"]]
    own, inner, of_model = calls
    shown = [(one["kind"], one["text"], one["who"]) for one in ends]
    assert shown == [("tool.error", said, who) for who in ("qwen", ann.name, ann.name)] + [
        ("notice", said, "qwen")
    ]
    assert [one["meta"]["tool"] for one in ends[:3]] == [calls[of_model], calls[inner], calls[own]]
    assert "seconds" not in ends[0]["meta"] and ends[1]["meta"]["nested"]
    assert ends[0]["turn"] == ends[3]["turn"]
    screen = ann.sit(room=ann.json("files")["room"])
    screen.wait_for(f"✗ {kit_id}:hold · {said}")
    screen.wait_for(f"✗ {calls[own]} · {said}")
    assert said in ann.does("expand") and said in ann.does(f"expand {ends[0]['seq']}")
    model.will("qwen", "I see.")
    screen.enter("@qwen what came of it?")
    screen.wait_for("qwen: I see.")
    sent = received(model.model.asked[-1])
    assert f"[{kit_id}__hold failed for qwen] {said}" in sent
    assert f"twice failed for {ann.name}] {said}" in sent
    screen.close()
