"""An author of a toolset: plans, files that are not kept, broken folders."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator

import pytest

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack

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


def test_plan_has_the_defaults_of_arguments_left_out(
    ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("kit")
    files = kit(kit_id, functions=("write",))
    files["toolset.yaml"] += '    renderer: {type: code, file: "$args.path"}\n'
    files["tools/kit.py"] = (
        "def write(workspace, path: str = 'out.txt'):\n    (workspace / path).write_text('red')\n"
    )
    assert ann.run("toolset import", pack(files), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    plan = ann.json(f"run --json {kit_id}:write {json.dumps({})}")["render_plan"]
    assert plan["config"]["file"] == "out.txt" and "problems" not in plan


@pytest.mark.parametrize("renderer", ["code", "document"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("b'\\0' * 3072", "A binary file, 3.0 KiB."),
        ("b'\\xff_*' * 1024", "A binary file, 3.0 KiB."),
        ("b'a' * (3 << 20)", "A file of 3.0 MiB, too large for here."),
    ],
)
def test_file_that_is_no_text_is_shown_by_its_size_and_how_to_get_it(
    ann: Person, name: Callable[[str], str], renderer: str, content: str, said: str
) -> None:
    kit_id = name("kit")
    files = kit(kit_id, functions=("write",))
    files["toolset.yaml"] += f"    renderer: {{type: {renderer}, file: a_*.py}}\n"
    files["tools/kit.py"] = (
        f"def write(workspace):\n    (workspace / 'a_*.py').write_bytes({content})\n"
        "    return {}\n"
    )
    assert ann.run("toolset import", pack(files), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    shown = ann.does(f"run {kit_id}:write").splitlines()
    assert shown[1] == f"  {said} ssh HOST 'file get a_*.py' > FILE saves it."
    assert "{}" not in shown
    later = ann.does("expand")
    version = ann.json("file history")["versions"][0]["id"][-6:]
    assert f"  {said} ssh HOST 'file get a_*.py --at {version}' > FILE saves it.\n" in later
    assert len(ann.run(f"file get a_*.py --at {version}").raw) >= 3072


SERVERS = """mcp_servers:
  - id: srv
    command: python3
    args: [-u, -c, "print(1)", --mode, fast]
    env: {MODE: fast, KEY: "${NOTES_KEY}"}
"""


def test_export_says_which_variables_must_be_set(ann: Person, name: Callable[[str], str]) -> None:
    kit_id = name("kit")
    files = kit(kit_id, functions=("ask",))
    files["toolset.yaml"] += SERVERS
    assert ann.run("toolset import", pack(files), "-T").status == 0
    exported = ann.run(f"toolset export {kit_id}", b"", "-T")
    assert "SRV_ARG_3 (mcp_servers[0].args[2]), NOTES_KEY (mcp_servers[0].env.KEY)." in exported.err
    with zipfile.ZipFile(io.BytesIO(exported.raw)) as archive:
        manifest = archive.read("toolset.yaml").decode()
    assert manifest.count("fast") == 2 and manifest.count("${") == 2
    assert ann.json(f"toolset export --json {kit_id}")["variables"] == [
        {"name": "SRV_ARG_3", "place": "mcp_servers[0].args[2]"},
        {"name": "NOTES_KEY", "place": "mcp_servers[0].env.KEY"},
    ]


def test_call_whose_files_are_too_many_fails(ann: Person, name: Callable[[str], str]) -> None:
    kit_id = name("kit")
    files = kit(kit_id, functions=("fill",))
    files["tools/kit.py"] = (
        "def fill(workspace):\n"
        "    for number in range(10_001):\n"
        "        (workspace / str(number)).touch()\n"
        "    return 'filled'\n"
    )
    assert ann.run("toolset import", pack(files), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    failed = ann.run(f"run {kit_id}:fill")
    said = failed.out + failed.err
    assert failed.status == 1 and "✗" in said and "filled" in said
    assert "were not kept: it has too many files" in said
