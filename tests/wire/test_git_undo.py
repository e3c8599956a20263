"""Git and what a room takes back: undone versions do not return by a push."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.driver.script import Script, speaking
from support.git_client import WITHOUT_GIT, GitClient
from support.sandboxes import needs_bubblewrap

pytestmark = pytest.mark.skipif(bool(WITHOUT_GIT), reason=WITHOUT_GIT)


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
    one = house.person(name("ann"))
    one.does(f"create {name('den')}", "equip room workspace:*")
    yield one
    one.hang_up()


def let_write(model: Script, ann: Person, path: str) -> None:
    """Let the model write a file, in a turn."""
    model.will("qwen", [("workspace__write_file", {"path": path, "content": f"{path}\n"})])
    model.will("qwen", "Done.")
    ann.does(f"@qwen write {path}")


def test_undone_version_does_not_return_by_a_push(
    house: Server, model: Script, ann: Person, tmp_path: Path
) -> None:
    git, room = GitClient(ann, tmp_path / "ann"), str(ann.json("files")["room"])
    let_write(model, ann, "v.txt")
    clone = git.clone(room)
    let_write(model, ann, "w.txt")
    git.tries("pull", "-q", cwd=clone)
    undone = git.head(clone)
    said = ann.json("undo")
    assert (said["changed_files"], said["kept_files"]) == (["w.txt"], []), said
    (clone / "z.txt").write_text("z\n")
    git.commit(clone, "mine")
    refused = git.push(clone)
    assert refused.status != 0 and "the room has taken back" in refused.err, refused
    found = re.search(r"git rebase --onto origin/main (\w+)", refused.err)
    assert found is not None and undone.startswith(found[1])
    assert [one["path"] for one in ann.json("files")["files"]] == ["v.txt"]
    assert git.tries("fetch", "-q", cwd=clone).status == 0
    assert git.tries("rebase", "-q", "--onto", "origin/main", found[1], cwd=clone).status == 0
    head = git.head(clone)
    assert git.push(clone).status == 0
    fetched = git.tries("fetch", cwd=clone)
    assert "forced" not in fetched.err and git.head(clone) == head
    assert sorted(one["path"] for one in ann.json("files")["files"]) == ["v.txt", "z.txt"]
    shutil.rmtree(house.data_dir / "cache")
    assert git.head(git.clone(room, "again")) == head


@needs_bubblewrap
def test_link_of_the_room_blocks_no_push(ann: Person, tmp_path: Path) -> None:
    git, room = GitClient(ann, tmp_path / "ann"), str(ann.json("files")["room"])
    assert ann.run("shell ln -s /etc/hosts h; echo a > a", b"", "-T").status == 0
    clone = git.clone(room)
    (clone / "b").write_text("b\n")
    git.commit(clone, "unrelated")
    assert git.push(clone).status == 0
    (clone / "h").unlink()
    git.commit(clone, "without the link")
    assert git.push(clone).status == 0
    (clone / "in").mkdir()
    (clone / "in" / "h").symlink_to("/etc/hosts")
    git.commit(clone, "with a link of mine")
    assert "leaves the files of the room" in git.push(clone).err
