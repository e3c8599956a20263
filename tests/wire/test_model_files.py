"""A model that works on the files of a room, and the way back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.fixtures import answering_with
from support.driver.model import Asked, question
from support.waiting import wait_until


def _edit(old: str, new: str) -> dict[str, Any]:
    arguments = {"path": "app.py", "old": old, "new": new}
    return {"name": "workspace__edit_file", "arguments": arguments}


STEPS: dict[str, list[dict[str, Any]]] = {
    "build": [
        {"name": "workspace__write_file", "arguments": {"path": "app.py", "content": "x = 1\n"}},
        _edit("x = 1", "x = 2"),
        {"name": "workspace__read_file", "arguments": {"path": "app.py"}},
    ],
    "change": [
        _edit("x = 2", "x = 3"),
        {"name": "workspace__write_file", "arguments": {"path": "new.md", "content": "# New\n"}},
    ],
}  # fmt: skip


def _answers(asked: Asked) -> Iterator[str | dict[str, Any]]:
    """Make the calls of the step that the question names, one after the other."""
    words = question(asked)
    step = next((calls for name, calls in STEPS.items() if name in words), [])
    last_question = max(
        number for number, message in enumerate(asked["messages"]) if message["role"] == "user"
    )
    done = sum(message["role"] == "tool" for message in asked["messages"][last_question:])
    if done < len(step):
        yield step[done]
    else:
        yield "done"


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with answering_with(_answers) as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"))
    one.does(f"create {name('bench')}", "equip room workspace:*")
    yield one
    one.hang_up()


def texts(person: Person) -> dict[str, str]:
    paths = [item["path"] for item in person.json("files")["files"]]
    return {path: person.run(f"file get {path}", b"", "-T").out for path in paths}


def test_model_builds_and_undo_brings_the_files_back(ann: Person) -> None:
    ann.does("@qwen build it")
    assert texts(ann) == {"app.py": "x = 2\n"}
    versions = ann.json("file history")["versions"]
    assert [version["source"] for version in versions] == ["tool_run", "tool_run"]
    assert {version["by"] for version in versions} == {"qwen"}
    marks = {item["path"]: item["changed"] for item in ann.json("files")["files"]}
    assert marks == {"app.py": "changed"}
    ann.does("@qwen change it")
    assert texts(ann) == {"app.py": "x = 3\n", "new.md": "# New\n"}
    undone = ann.does("undo")
    assert "2 files changed with it: app.py, new.md." in undone
    told = r"dropped qwen's answer to .* \(\w+\); 2 files changed with it"
    assert re.search(told, ann.does("history"))
    assert texts(ann) == {"app.py": "x = 2\n"}
    assert ann.json("file history")["versions"] == versions
    ann.does("message restore " + ann.json("message list")["turns"][-1]["short"])
    assert texts(ann) == {"app.py": "x = 3\n", "new.md": "# New\n"}


def test_asking_again_begins_from_the_files_before_the_answer(ann: Person) -> None:
    ann.does("@qwen build it", "@qwen change it")
    first = ann.json("files")["version"]
    ann.does("retry")
    second = ann.json("files")["version"]
    assert first != second
    assert texts(ann) == {"app.py": "x = 3\n", "new.md": "# New\n"}
    ann.run("file put app.py", b"mine\n", "-T")
    fork = ann.json("branch list")["forks"][-1]
    other = next(turn["short"] for turn in fork if not turn["on"])
    ann.run("file put extra.txt", b"x\n", "-T")
    switched = ann.does(f"branch switch {other}")
    assert "2 files changed with it: app.py, extra.txt." in switched
    told = " ".join(ann.does("history").split())
    assert "asks qwen again; 2 files changed with it: app.py, new.md" in told
    assert re.search(r"switched to another branch: .*; 2 files changed with it: app.py", told)
    assert texts(ann) == {"app.py": "x = 3\n", "new.md": "# New\n"}
    assert ann.json("files")["version"] == first
    again = next(turn["short"] for turn in fork if turn["on"])
    ann.does(f"branch switch {again}")
    assert texts(ann) == {"app.py": "mine\n", "new.md": "# New\n", "extra.txt": "x\n"}


def test_version_follows_the_branch_also_if_both_wrote_the_same(ann: Person) -> None:
    ann.does("@qwen build it")
    first = ann.json("file history")["versions"]
    ann.does("retry")
    second = ann.json("file history")["versions"]
    assert {one["source_ref"] for one in first}.isdisjoint(one["source_ref"] for one in second)
    for versions in (first, second):
        (fork,) = ann.json("branch list")["forks"]
        ann.does(f"branch switch {next(turn['short'] for turn in fork if not turn['on'])}")
        assert ann.json("file history")["versions"] == versions
        room = ann.json("files")
        assert room["version"] == versions[0]["id"]
        shown = ann.json(f"sql SELECT active_manifest_id FROM chats WHERE name = '{room['room']}'")
        assert shown["rows"] == [[versions[0]["id"]]]


def test_who_asks_again_reads_which_files_change_and_which_stay(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    bob = house.person(name("bob"))
    room = ann.json("files")["room"]
    ann.does("@qwen build it", "@qwen change it")
    bob.run(f"file put app.py --room {room}", b"mine\n", "-T")
    said = (
        "qwen is asked again. 1 file changed with it: new.md. app.py was changed since, and stays."
    )
    screen = ann.sit(room=room)
    screen.enter("/retry")
    screen.wait_for(lambda: said in " ".join(" ".join(screen.lines).split()))
    told = " ".join(bob.does(f"history --room {room}").split())
    assert "asks qwen again; 1 file changed with it: new.md; app.py was changed since" in told
    screen.wait_for_count("qwen: done", 3)  # also while it is written
    wait_until(lambda: all(one["status"] != "open" for one in ann.json("message list")["turns"]))
    assert (
        ann.json("retry")["said"]["note"] == "qwen is asked again. 1 file changed with it: new.md."
    )
    screen.close()


def test_turn_that_is_dropped_on_another_branch_takes_its_files_from_there(ann: Person) -> None:
    ann.does("@qwen build it", "retry", "@qwen change it")
    fork = ann.json("branch list")["forks"][0]
    first, second = (turn["short"] for turn in fork)
    change = ann.json("message list")["turns"][-1]["short"]
    ann.does(f"branch switch {first}", f"message drop {change}", f"branch switch {second}")
    assert texts(ann) == {"app.py": "x = 2\n"}


def test_everybody_reads_which_files_change_with_a_branch(ann: Person) -> None:
    """What others see changes under them, and only one of them has typed something."""
    ann.does("@qwen build it", "retry", "@qwen change it")
    fork = ann.json("branch list")["forks"][0]
    other = next(turn["short"] for turn in fork if not turn["on"])
    ann.does(f"branch switch {other}")
    assert texts(ann) == {"app.py": "x = 2\n"}
    told = " ".join(ann.does("history").split())
    said = "switched to another branch: qwen's answer to ann"
    assert re.search(said + r"\S*, \w+; 2 files changed with it: app.py, new.md", told)
    ann.does(f"message drop {other}")
    assert texts(ann) == {}
    told = " ".join(ann.does("history").split())
    assert re.search(rf"dropped .* \({other}\); 1 file changed with it: app.py", told)


def test_call_records_the_versions_before_and_after(ann: Person) -> None:
    ann.does("@qwen build it")
    room = ann.json("files")["room"]
    rows = ann.json(
        "sql SELECT tool_id, pre_manifest_id, post_manifest_id FROM tool_calls JOIN chats"
        f" ON chats.id = chat_id WHERE chats.name = '{room}' ORDER BY started_at, tool_calls.id"
    )["rows"]
    versions = [version["id"] for version in ann.json("file history")["versions"]][::-1]
    assert rows == [
        ["workspace:write_file", None, versions[0]],
        ["workspace:edit_file", versions[0], versions[1]],
        ["workspace:read_file", None, None],
    ]
    refs = [version["source_ref"] for version in ann.json("file history")["versions"]]
    assert all(refs)


def test_model_without_the_namespace_has_no_files(house: Server, ann: Person) -> None:
    ann.does("unequip room workspace:*", "@qwen build it")
    assert ann.json("files")["count"] == 0
