"""What is recorded of a call of a toolset: its state, its files, its end."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.driver.model import received
from support.driver.script import Script, speaking
from support.git_client import WITHOUT_GIT, GitClient
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack
from support.waiting import wait_until

pytestmark = needs_bubblewrap

TOOLS = '''
import time


def look(workspace):
    """List files."""
    return sorted(file.name for file in workspace.iterdir())


def write(workspace, path: str, text: str = "text"):
    """Write a file."""
    (workspace / path).write_text(text)
    return "written"


def boom(workspace):
    """Fail after a file."""
    (workspace / "partial.txt").write_text("half")
    raise ValueError("it went boom")


def many(workspace):
    """Write many files, and remove one."""
    for number in range(8):
        (workspace / f"f{number}").touch()
    (workspace / "a").unlink()


def hold(workspace):
    """Work until there is a file `go`."""
    (workspace / "begun").touch()
    while not (workspace / "go").exists():
        time.sleep(0.02)
    (workspace / "go").unlink()
    (workspace / "begun").unlink()
    return "held"
'''


CONFIRMS = "    entrypoint: tools.kit:write\n    requires_confirmation: true\n"


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
    files["toolset.yaml"] += f"  - id: guarded\n{CONFIRMS}"
    assert ann.run("toolset import", pack(files), "-T").status == 0
    ann.does(f"equip room {made}:*")
    return made


def start(person: Person, command: str) -> subprocess.Popen[str]:
    """Start a command over ssh."""
    return subprocess.Popen(
        [*person.ssh("-T"), command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def find_folder(person: Person) -> Path:
    """Return the folder in which tools work in the room."""
    found = person.json(f"sql SELECT id FROM chats WHERE name = '{person.json('files')['room']}'")
    ((room_id,),) = found["rows"]
    return Path(person.server.data_dir, "workspaces", room_id)


def wait_for_work(person: Person) -> None:
    """Wait until `hold` works in the room."""
    begun = find_folder(person) / "begun"
    wait_until(begun.exists)


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
    wait_for_work(ann)
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


def test_call_in_a_room_without_files_begins_and_ends_with_an_empty_version(
    ann: Person, kit_id: str
) -> None:
    assert ann.json("file history")["versions"] == []
    assert ann.does(f"run {kit_id}:look").startswith("✓")
    ((call_id, before, after),) = read_calls(ann, "call.id, pre_manifest_id, post_manifest_id")
    assert before is not None and before == after
    room = ann.json("files")
    assert (room["version"], room["files"]) == (before, [])
    assert ann.json(
        f"sql SELECT parent_id, files, source, source_ref FROM workspace_manifests"
        f" WHERE id = '{before}'"
    )["rows"] == [[None, "{}", "tool_run", call_id]]  # fmt: skip
    assert ann.json(f"sql SELECT active_manifest_id FROM chats WHERE name = '{room['room']}'")[
        "rows"
    ] == [[before]]
    (shown,) = ann.does("file history").splitlines()[1:]
    assert shown.startswith(f"  {before[-6:]}  ") and shown.endswith("  no files"), shown
    assert "no files" in ann.does("file version")
    assert "has no files" in ann.does("files")
    assert "Nothing differs" in ann.does("file diff")
    ann.does(f"run {kit_id}:write path=a", f"run {kit_id}:look")
    versions = [one["id"] for one in ann.json("file history")["versions"]][::-1]
    assert versions[0] == before and len(versions) == 2
    ids = read_calls(ann, "pre_manifest_id, post_manifest_id")
    assert ids == [[before, before], versions, [versions[1], versions[1]]]
    assert f"/file restore {versions[1][-6:]}" in ann.does("file history")


def test_version_before_a_call_is_known_while_it_runs_and_after_a_crash(
    house: Server, ann: Person, kit_id: str
) -> None:
    running = start(ann, f"run {kit_id}:hold")
    wait_for_work(ann)
    ids = read_calls(ann, "pre_manifest_id, post_manifest_id")
    assert ids == [[ann.json("file history")["versions"][0]["id"], None]]
    house.kill()
    running.communicate()
    house.start()
    assert read_calls(ann, "pre_manifest_id, post_manifest_id") == ids


def test_call_that_is_denied_has_no_versions_and_makes_none(
    model: Script, ann: Person, kit_id: str
) -> None:
    screen = ann.sit(room=ann.json("files")["room"])
    model.will("qwen", [(f"{kit_id}__guarded", {"path": "a"})])
    model.will("qwen", "Not done.")
    screen.enter("@qwen write it")
    screen.wait_for(f"asks to run {kit_id}:guarded")
    screen.enter("/deny")
    screen.wait_for("qwen: Not done.")
    columns = "status, pre_manifest_id, post_manifest_id, started_at = finished_at"
    assert read_calls(ann, columns) == [["error", None, None, 1]]
    assert ann.json("files")["version"] is None
    screen.close()


@pytest.mark.skipif(bool(WITHOUT_GIT), reason=WITHOUT_GIT)
def test_room_with_an_empty_version_is_an_empty_repository_that_takes_a_first_push(
    model: Script, ann: Person, kit_id: str, tmp_path: Path
) -> None:
    git, room = GitClient(ann, tmp_path / "ann"), str(ann.json("files")["room"])
    mine = git.clone(room)  # before there is a version
    model.will("qwen", [(f"{kit_id}__write", {"path": "a"})])
    model.will("qwen", "Done.")
    ann.does("@qwen write it")
    assert git.does("log", "--format=%s", cwd=git.clone(room, "written")) == "Change a\n"
    assert "1 file changed with it: a." in ann.does("undo")
    assert [one["files"] for one in ann.json("file history")["versions"]] == [0]
    undone = git.tries("clone", git.url(room), "undone")
    assert undone.status == 0 and "empty repository" in undone.err
    (mine / "b").write_text("b\n")
    git.commit(mine, "first")
    pushed = git.push(mine)
    assert pushed.status == 0, pushed
    assert git.does("log", "--format=%s", cwd=git.clone(room, "again")) == "first\n"
    assert [one["path"] for one in ann.json("files")["files"]] == ["b"]


def let_go(person: Person) -> datetime:
    """Let the call of `hold` end; return when."""
    go, now = find_folder(person) / "go", datetime.now(UTC)
    go.touch()
    return now


def test_call_that_waits_for_its_turn_is_pending_and_starts_with_it(
    ann: Person, kit_id: str
) -> None:
    first = start(ann, f"run {kit_id}:hold")
    wait_for_work(ann)
    began = time.monotonic()
    second = start(ann, f"run --json {kit_id}:look")
    wait_until(lambda: read_calls(ann, "status") == [["running"], ["pending"]])
    asked = time.monotonic()
    for _ in range(3):  # the wait is longer than what is run
        assert read_calls(ann, "status, pre_manifest_id")[1] == ["pending", None]
    waited = time.monotonic() - asked
    let_go_at = let_go(ann)
    first.communicate()
    said = json.loads(second.communicate()[0])
    total = time.monotonic() - began
    assert said["ok"] and waited <= said["waited"] and said["seconds"] + said["waited"] <= total
    started, finished = map(datetime.fromisoformat, read_calls(ann, "started_at, finished_at")[1])
    assert started >= let_go_at.replace(microsecond=let_go_at.microsecond // 1000 * 1000)
    assert (finished - started).total_seconds() < said["seconds"] + said["waited"]
    (row,) = (one for one in ann.json("history")["entries"] if one["seq"] == said["seq"])
    meta = row["meta"]
    assert [meta["seconds"], meta["waited"]] == [
        round(said[key], 3) for key in ("seconds", "waited")
    ]


def test_call_that_is_stopped_while_it_waits_has_run_no_time(ann: Person, kit_id: str) -> None:
    first = start(ann, f"run {kit_id}:hold")
    wait_for_work(ann)
    screen = ann.sit(room=ann.json("files")["room"])
    screen.enter(f"/run {kit_id}:look")
    wait_until(lambda: read_calls(ann, "status") == [["running"], ["pending"]])
    screen.send(b"\x03")
    screen.wait_for("The call was stopped.")
    columns = "status, pre_manifest_id, post_manifest_id, started_at = finished_at"
    assert read_calls(ann, columns)[1] == ["error", None, None, 1]
    let_go(ann)
    first.communicate()
    screen.close()


def test_rows_of_results_name_the_files_that_the_call_changed(
    model: Script, ann: Person, kit_id: str
) -> None:
    screen = ann.sit(room=ann.json("files")["room"])
    screen.enter(f"/run {kit_id}:write path=a")
    screen.wait_for(re.compile(rf"^✓ {kit_id}:write \S+s · changed a *$", re.M))
    assert f"tool.result {kit_id}:write · changed a · written\n" in ann.does("history")
    boom = ann.run(f"run {kit_id}:boom")
    assert boom.status != 0
    assert re.match(rf"✗ {kit_id}:boom \S+s · changed partial.txt\n", boom.out), boom
    said = "changed partial.txt · ValueError: it went boom"
    screen.wait_for(re.compile(rf"✗ {kit_id}:boom \S+s · {said}"))
    assert "tool.error · changed partial.txt\n" in ann.does("expand")
    assert ann.json("expand")["changes"] == "changed partial.txt"
    model.will("qwen", [(f"{kit_id}__write", {"path": "b"})])
    model.will("qwen", "Done.")
    ann.does("@qwen write it")
    screen.wait_for(re.compile(rf"  ✓ {kit_id}:write \S+s · changed b · written"))
    many = ann.json(f"run {kit_id}:many")
    assert many["changes"] == "changed 8 files: f0, f1, f2, f3, f4 and 3 more; removed a"
    assert (many["text"], many["structured"]) == ("null", None)
    assert ann.json("history")["entries"][-1]["meta"]["changes"] == many["changes"]
    assert "changes" not in ann.json(f"run {kit_id}:look")["text"]
    assert "changes" not in ann.json("history")["entries"][-1]["meta"]
    screen.close()


@pytest.mark.parametrize(
    "call", ["{kit_id}:hold", 'workspace:run_command command="touch begun; sleep 60"']
)
def test_call_that_is_stopped_names_the_files_that_are_kept(
    ann: Person, kit_id: str, call: str
) -> None:
    ann.does("equip room workspace:run_command")
    screen = ann.sit(room=ann.json("files")["room"])
    screen.enter(f"/run {call.format(kit_id=kit_id)}")
    wait_for_work(ann)
    screen.send(b"\x03")
    screen.wait_for("· changed begun · The call was stopped.")
    assert [one["path"] for one in ann.json("files")["files"]] == ["begun"]
    screen.close()


def test_command_names_its_files_in_its_own_text(ann: Person) -> None:
    ann.does("equip room workspace:run_command")
    said = ann.json('run workspace:run_command command="touch made"')
    assert said["changes"] == "" and "wrote made" in said["text"]


def test_models_read_which_files_their_calls_changed_now_and_later(
    model: Script, ann: Person, kit_id: str
) -> None:
    calls = [(f"{kit_id}__write", {"path": "a"}), (f"{kit_id}__boom", {})]
    model.will("qwen", calls)
    model.will("qwen", "Done.")
    model.will("qwen", "Yes.")
    ann.does("@qwen do it", "@qwen was it done?")
    now, later = (
        [one["content"] for one in asked["messages"] if one["role"] == "tool"]
        for asked in model.model.asked[-2:]
    )
    assert now == later and now[0] == "written\nIt changed a."
    failed = json.loads(now[1])["error"]
    assert "it went boom" in failed and failed.endswith("\nIt changed partial.txt.")
