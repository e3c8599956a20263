"""What of a toolset is installed, and what a refused one leaves: nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.fixtures import serving
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import HELPERS, KIT, kit, pack
from support.waiting import wait_until


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"), role="admin")
    one.does(f"create {name('bench')}")
    yield one
    one.hang_up()


SHOWN = """
id: {id}
name: Shown
version: "1"
manifest_version: "1"
tools:
  - {{id: give, entrypoint: "m:give", description: Gives a text.}}
"""


@needs_bubblewrap
@covers("tool set")
def test_people_decide_how_a_tool_is_shown_and_an_import_keeps_that(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id, bob = name("shown"), house.person(name("bob"))
    give, code = f"{kit_id}:give", "def give(text: str) -> dict:\n    return {'code': text}\n"
    archive = pack({"toolset.yaml": SHOWN.format(id=kit_id), "m.py": code})
    assert ann.run("toolset import", archive, "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    renderer = '{"type": "code", "content": "$return.code", "language": "python"}'
    assert f"{give} is shown as Gives it." in ann.does(f"tool set {give} name Gives it")
    assert f"Approval of calls of {give}: on." in ann.does(f"tool set {give} approval on")
    ann.does(f"tool set {give} renderer {renderer}")
    assert ann.run("toolset import", archive, "-T").status == 0
    shown = ann.does(f"toolset show {kit_id}")
    assert "Gives it" in shown and "code" in shown and "needs an approval" in shown
    bob.does(f"join {ann.json('files')['room']}")
    refused = bob.run(f"run {give} text=x")
    assert refused.status == 1 and "needs the approval of a person" in refused.out + refused.err
    ann.does(f"tool set {give} approval -")
    assert ann.json(f"run {give} text=y")["render_plan"]["config"]["content"] == "y"
    wrong = ann.run(f'tool set {give} renderer {{"type": "code", "colour": 1}}')
    assert wrong.status == 2 and "renderer.colour: unknown field" in wrong.err, wrong
    for name_of_renderer in ("[]", '"plot"', "null"):
        wrong = ann.run(f'tool set {give} renderer {{"type": {name_of_renderer}}}')
        assert wrong.status == 2 and wrong.err.startswith("renderer.type"), wrong
    ann.does(f"tool set {give} renderer -", f"tool set {give} name -")
    assert ann.json(f"run {give} text=y")["render_plan"] is None


@needs_bubblewrap
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"toolset.yaml": "id: x"}, "manifest_version"),
        ({"toolset.yaml": "{"}, "toolset.yaml"),
        ({"tools/kit.py": "import nothing_here"}, "No module named 'nothing_here'"),
        ({"tools/kit.py": "def paint(: pass"}, "SyntaxError"),
        pytest.param(
            {"tools/kit.py": "while True: pass"}, "cannot be read in 10 s", marks=pytest.mark.soak
        ),
        ({"tools/kit.py": "paint = 3"}, "has no function"),
        ({"../out": "x"}, "../out"),
    ],
)
def test_unusable_toolset_is_refused_and_leaves_nothing(
    house: Server, ann: Person, name: Callable[[str], str], change: dict[str, str], said: str
) -> None:
    kit_id = name("bad")
    before = set(house.data_dir.glob("blobs/??/*"))
    refused = ann.run("toolset import", pack(kit(kit_id) | change), "-T")
    assert refused.status != 0
    assert said in refused.err, refused
    assert set(house.data_dir.glob("blobs/??/*")) == before
    assert kit_id not in [one["id"] for one in ann.json("toolset list")["toolsets"]]
    assert not (house.data_dir / "toolsets" / kit_id).exists()


@needs_bubblewrap
@pytest.mark.parametrize("taken", ["workspace", "sshwarma", "room", "global", "all"])
def test_toolset_with_a_name_that_is_taken_is_refused_before_it_runs(
    house: Server, ann: Person, taken: str
) -> None:
    slow = {"tools/kit.py": "while True: pass"}  # it would be ended after 10 s
    refused = ann.run("toolset import", pack(kit(taken) | slow), "-T")
    assert refused.status != 0 and taken in refused.err, refused
    assert "cannot be read" not in refused.err
    assert not (house.data_dir / "toolsets" / taken).exists()


@needs_bubblewrap
def test_folders_stay_only_for_what_is_installed(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("kit")
    folder = house.data_dir / "toolsets" / kit_id
    for version in ("1", "2"):
        assert ann.run("toolset import", pack(kit(kit_id, version)), "-T").status == 0
        assert len(list(folder.iterdir())) == 1
    parent = name("space")
    ann.does(f"namespace new {parent}")
    refused = ann.run(f"namespace set {kit_id} parent {parent}")
    assert "is a toolset, whose name is its id" in refused.err, refused
    (folder / "old").mkdir()
    (folder.parent / "killed" / ".new-1").mkdir(parents=True)
    house.stop()
    house.start()
    assert len(list(folder.iterdir())) == 1
    assert not (folder.parent / "killed").exists()
    ann.does(f"toolset uninstall {kit_id} --yes")
    assert not folder.exists()


@needs_bubblewrap
@pytest.mark.parametrize(
    ("meanwhile", "refusal"),
    [("upgrade", "was changed"), ("disable", "cannot be used here any more")],
)
def test_toolset_that_changed_while_a_call_waited_is_not_run(
    house: Server, ann: Person, name: Callable[[str], str], meanwhile: str, refusal: str
) -> None:
    kit_id, bob = name("kit"), house.person(name("bob"))
    asking = KIT.replace("{tools}", "{tools}    requires_confirmation: true\n")
    tools = "  - id: fail\n    entrypoint: tools.kit:fail\n"
    files = kit(kit_id) | {"toolset.yaml": asking.format(id=kit_id, version="1", tools=tools)}
    assert ann.run("toolset import", pack(files), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    room = ann.json("files")["room"]
    screen = ann.sit(room=room)
    bob.does(f"join {room}")
    with subprocess.Popen(
        [*bob.ssh("-T"), f"run {kit_id}:fail"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as waits:
        screen.wait_for(f"asks to run {kit_id}:fail")
        if meanwhile == "upgrade":
            later = files | {"tools/helpers.py": HELPERS + "\n"}
            assert ann.run("toolset import", pack(later), "-T").status == 0
        else:
            ann.does(f"toolset disable {kit_id}")
        allowed = ann.run("allow")
        is_withdrawn = re.search("No call (with the number [0-9]+ )?waits", allowed.err)
        assert allowed.status == 0 or is_withdrawn
        said = waits.communicate()[0].decode()
    assert refusal in said
    assert ann.json("files")["count"] == 0


@needs_bubblewrap
def test_rooms_that_use_a_toolset_read_what_happens_to_it(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id, bob = name("kit"), house.person(name("bob"))
    assert ann.run("toolset import", pack(kit(kit_id)), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    room = ann.json("files")["room"]
    screen = bob.sit(room=room)
    ann.does(f"create {name('other')}")
    assert ann.json("files")["room"] != room
    for line, word in (("disable", "disabled"), ("enable", "enabled")):
        ann.does(f"toolset {line} {kit_id}")
        screen.wait_for(f"{ann.name} {word} the toolset {kit_id}")
    ann.does(f"toolset enable {kit_id}")  # which changes nothing
    assert ann.run("toolset import", pack(kit(kit_id, "2.0")), "-T").status == 0
    screen.wait_for(f"{ann.name} upgraded the toolset {kit_id} to 2.0")
    ann.does(f"toolset uninstall {kit_id} --yes")
    screen.wait_for(f"{ann.name} uninstalled the toolset {kit_id}")
    assert screen.text.count(f" enabled the toolset {kit_id}") == 1
    assert kit_id not in bob.does("history --room lobby")


def test_only_admins_install(house: Server, name: Callable[[str], str]) -> None:
    bob = house.person(name("bob"))
    refused = bob.run("toolset import", pack(kit(name("kit"))), "-T")
    assert refused.status != 0 and "needs the admin right" in refused.err


def write_folder(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@needs_bubblewrap
@covers("toolset link")
def test_linked_folder_is_installed_again_when_it_changes(
    house: Server, ann: Person, name: Callable[[str], str], tmp_path: Path
) -> None:
    kit_id, owner = name("kit"), house.owner
    files = kit(kit_id, functions=("ask",))
    write_folder(tmp_path, files)
    assert "needs the own right" in ann.run(f"toolset link {tmp_path}").err
    assert owner.does(f"toolset link {tmp_path}") == (
        f"Linked {kit_id} 1.0: Kit, 1 tool.\n/equip room {kit_id}:* equips its tools in a room.\n"
    )
    assert ann.json(f"toolset show {kit_id}")["toolset"]["source"] == f"local, {tmp_path}"
    ann.does(f"equip room {kit_id}:*")
    assert "nothing" in ann.does(f"run {kit_id}:ask")
    changed = files["tools/kit.py"].replace('"nothing"', '"something"')
    write_folder(tmp_path, {"tools/kit.py": changed})
    assert "something" in ann.does(f"run {kit_id}:ask")
    assert ann.json(f"toolset show {kit_id}")["toolset"]["installed_by"] == owner.name
    taking = changed.replace("def ask() -> str:", "def ask(word: str) -> str:\n    return word")
    write_folder(tmp_path, {"tools/kit.py": taking})
    assert "spoken" in ann.does(f"run {kit_id}:ask word=spoken")
    write_folder(tmp_path, {"tools/kit.py": changed})
    with ThreadPoolExecutor(3) as pool:  # a model calls several at once
        answers = [pool.submit(ann.run, f"run {kit_id}:ask") for _ in range(3)]
    assert all("something" in answer.result().out for answer in answers)
    write_folder(tmp_path, {"tools/kit.py": "broken ("})
    failed = ann.run(f"run {kit_id}:ask")
    assert failed.status == 1 and "SyntaxError" in failed.out + failed.err
    write_folder(tmp_path, kit(kit_id, "2.0", functions=("ask", "fail")))
    assert "nothing" in ann.does(f"run {kit_id}:ask")
    ann.does(f"equip room {kit_id}:fail")
    failed = ann.run(f"run {kit_id}:fail")
    assert "no paint is left" in failed.out + failed.err
    network = (
        "mcp_servers:\n  - id: srv\n    command: python3\n    network: true\n"
    )  # fmt: skip
    manifest = kit(kit_id, "2.0", functions=("ask",))["toolset.yaml"] + network
    write_folder(tmp_path, {"toolset.yaml": manifest})
    failed = ann.run(f"run {kit_id}:ask")
    assert "An owner can link it again." in failed.out + failed.err
    assert ann.run("toolset import", pack(kit(kit_id, "3.0", functions=("ask",))), "-T").status == 0
    assert "nothing" in ann.does(f"run {kit_id}:ask")


@needs_bubblewrap
def test_call_brings_no_uninstalled_toolset_back(
    house: Server, ann: Person, name: Callable[[str], str], tmp_path: Path
) -> None:
    """A linked one is installed again by a call, which an uninstall may overtake."""
    kit_id, owner = name("kit"), house.owner
    files = kit(kit_id, functions=("ask",))
    write_folder(tmp_path, files)
    owner.does(f"toolset link {tmp_path}")
    ann.does(f"equip room {kit_id}:*")
    slow = files["tools/kit.py"] + "\ntime.sleep(1)\n"
    write_folder(tmp_path, {"tools/kit.py": slow})
    with subprocess.Popen(
        [*ann.ssh("-T"), f"run {kit_id}:ask"], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as calling:  # fmt: skip
        owner.does(f"toolset uninstall {kit_id} --yes")
        calling.wait(30)
    assert kit_id not in [one["id"] for one in ann.json("toolset list")["toolsets"]]


@needs_bubblewrap
def test_uninstall_ends_the_calls_that_run_and_says_so_to_both(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("kit")
    assert ann.run("toolset import", pack(kit(kit_id)), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    bob = house.person(name("bob"))
    bob.does(f"join {ann.json('files')['room']}")
    long = subprocess.Popen(
        [*bob.ssh("-T"), f"run {kit_id}:wait_long"], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    wait_until(lambda: f"tool.call {kit_id}:wait_long" in ann.does("history"))
    said = ann.does(f"toolset uninstall {kit_id} --yes")
    assert f"These calls ran, and were ended: {kit_id}:wait_long of {bob.name}." in said
    told, _ = long.communicate()
    because = f"{ann.name} uninstalled the toolset {kit_id}"
    assert f"{kit_id}:wait_long was ended: {because}." in " ".join(told.split())
    assert long.returncode == 1
    assert f"was ended: {because}" in " ".join(ann.does("history").split())
    bob.hang_up()
