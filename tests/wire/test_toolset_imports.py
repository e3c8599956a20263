"""Imports of a toolset one after another: what each stores, and what it says."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack
from support.waiting import wait_until

PROGRAM = Path(__file__).parents[1] / "support" / "programs" / "bundled_server.py"

pytestmark = needs_bubblewrap


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"), role="owner")
    one.does(f"create {name('bench')}")
    yield one
    one.hang_up()


def stored(house: Server) -> list[Any]:
    """All that is stored of toolsets, and of what belongs to them."""
    queries = (
        "SELECT * FROM things WHERE kind IN ('toolset', 'tool', 'mcp') ORDER BY id",
        "SELECT * FROM toolset_files ORDER BY path",
        "SELECT * FROM tool_overrides ORDER BY id",
    )
    return [house.query(query) for query in queries]


def test_unchanged_import_changes_nothing_that_is_stored(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    bob, kit_id, server = house.person(name("bob"), role="owner"), name("kit"), name("srv")
    files = kit(kit_id, functions=("ask",)) | {"server.py": PROGRAM.read_text()}
    files["toolset.yaml"] += (
        "tool_overrides: [{tool_id: ask, name_override: Ask Away}]\n"
        f"mcp_servers: [{{id: {server}, command: python3, args: [-u, /ts/server.py]}}]\n"
    )
    assert ann.run("toolset import", pack(files), "-T").status == 0
    wait_until(lambda: ann.json(f"toolset show {kit_id}")["servers"][0]["state"] == "up")
    ann.does(f"namespace set {kit_id} description For asking")
    before = stored(house)
    for archive in (pack(files), pack(files, "other-folder/")):
        assert "is unchanged" in bob.run("toolset import", archive, "-T").out
    assert stored(house) == before
    bob.hang_up()


def test_details_say_which_archive_it_was_and_who_brought_it(
    ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("kit")
    archive = pack(kit(kit_id, functions=("ask",)))
    assert ann.run("toolset import", archive, "-T").status == 0
    source = f"sha256:{hashlib.sha256(archive).hexdigest()}"
    shown = ann.json(f"toolset show {kit_id}")["toolset"]
    assert shown["source"] == f"zip, {source}"
    assert (shown["installed_by"], shown["installed_over"]) == (ann.name, "ssh")
    drawn = ann.does(f"toolset show {kit_id}")
    assert f" UTC by {ann.name} over ssh\n  from zip, {source}\n" in drawn
    said = ann.does(f"sql SELECT source_type, source_ref FROM toolsets WHERE id = '{kit_id}'")
    assert source in said


@pytest.mark.parametrize(
    ("before", "after", "said", "told"),
    [
        ("1.9", "1.10", "Upgraded {} from 1.9 to 1.10", "upgraded the toolset {} to"),
        ("2.0", "1.5", "Downgraded {} from 2.0 to 1.5", "downgraded the toolset {} to"),
        ("1.0-b", "1.0-a", "Replaced {} 1.0-b by 1.0-a", "replaced the toolset {} by"),
    ],
)
def test_import_says_whether_the_version_is_later(
    ann: Person, name: Callable[[str], str], before: str, after: str, said: str, told: str
) -> None:
    kit_id = name("kit")
    old, new = (pack(kit(kit_id, version, functions=("ask",))) for version in (before, after))
    assert ann.run("toolset import", old, "-T").status == 0
    assert ann.run("toolset import", new, "-T").out == f"{said.format(kit_id)}: Kit, 1 tool.\n"
    room = f"{told.format(kit_id)} {after} (before: {before})"
    assert room in " ".join(ann.does("history").split())
    assert ann.run("toolset import --json", old, "-T").status == 0
    assert ann.run("toolset import --json", new, "-T").json["how"] == told.split()[0]


CODE = '''from sshwarma_toolset import tool
from tools.helpers import double

def ask():
    """Ask."""

def sing(times: int = 1):
    """Sing."""
    return double(times)
'''


def imported(person: Person, files: dict[str, str], kit_id: str) -> tuple[str, str]:
    """Import a toolset; return what differs for the importer, and for the room."""
    done = person.run("toolset import", pack(files), "-T")
    assert done.status == 0, done
    newest = " ".join(person.does("history 1").split())
    return " ".join(done.out.splitlines()[1:]), newest.partition(f" toolset {kit_id}")[2]


def test_tools_with_another_definition_are_named_and_other_code_is_said(
    ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("kit")
    files = kit(kit_id, functions=("ask", "sing")) | {"tools/kit.py": CODE}
    imported(ann, files, kit_id)

    def change(path: str, old: str, new: str) -> tuple[str, str]:
        assert old in files[path]
        files[path] = files[path].replace(old, new)
        return imported(ann, files, kit_id)

    tool = "  - id: hum\n    entrypoint: tools.kit:hum\n"
    files["tools/kit.py"] += '\ndef hum():\n    """Hum."""\n'
    said, told = change("toolset.yaml", "  - id: sing\n", f"{tool}  - id: sing\n")
    assert said == "New: hum. The code of others changed."
    assert told == ", still 1.0 (new: hum; the code of others changed)"
    said, told = change("tools/kit.py", "Hum.", "Hum loud.")
    assert said == "Changed: hum. The code of others changed."
    assert told == ", still 1.0 (changed: hum; the code of others changed)"
    said, told = change("tools/helpers.py", "2 * number", "3 * number")
    assert said == "The code of its tools changed."
    assert told == ", still 1.0 (the code of its tools changed)"
    rendered = f"{tool}    renderer: {{type: document, content: $return}}\n"
    assert change("toolset.yaml", tool, rendered)[0] == "Changed: hum."
    said, _ = change("toolset.yaml", "tools.kit:sing\n", "tools.kit:ask\n")
    assert said == "Changed: sing."
    files |= {"tools/other.py": CODE}
    said, _ = change("toolset.yaml", "tools.kit:hum\n", "tools.kit:hum\n    name: Hum It\n")
    assert said == "Changed: hum."
    said, _ = change("toolset.yaml", 'version: "1.0"', 'version: "1.1"')
    assert said == ""
