"""The folder of a room for programs: equal to its files, whatever they left."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from sshwarma.common import limits
from sshwarma.workspaces import run_folder
from sshwarma.workspaces.blobs import BlobStore, DamagedBlob
from sshwarma.workspaces.run_folder import Folder, UnusableFolderError
from sshwarma.workspaces.tree import EMPTY_FOLDER, FILE_MODE, LINK_MODE, PROGRAM_MODE, Entry
from support.waiting import wait_until


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
def folder(tmp_path: Path, blobs: BlobStore) -> Folder:
    return Folder(tmp_path / "rooms" / "r", blobs)


def entry(blobs: BlobStore, text: str, mode: int = FILE_MODE) -> Entry:
    return Entry(blobs.store(text.encode()), mode, len(text.encode()))


def read_all(path: Path) -> dict[str, str]:
    return {
        str(file.relative_to(path)): file.read_text()
        for file in path.rglob("*")
        if file.is_file() and not file.is_symlink()
    }


def let_age(folder: Folder, paths: Iterable[str]) -> None:
    """Wait until files are old enough to be trusted unread, and look at them."""
    newest = max((folder.path / path).stat().st_ctime_ns for path in paths)
    wait_until(lambda: time.time_ns() - newest > run_folder.SAFE_AGE_NS)
    folder.snapshot()


def test_folder_becomes_equal_to_a_tree(folder: Folder, blobs: BlobStore) -> None:
    tree = {
        "a.txt": entry(blobs, "a"),
        ".hidden": entry(blobs, "h"),
        "bin/run": entry(blobs, "#!/bin/sh", PROGRAM_MODE),
        "deep/er/b": entry(blobs, ""),
        "empty": EMPTY_FOLDER,
        "link": entry(blobs, "a.txt", LINK_MODE),
    }
    folder.materialize(tree)
    assert folder.snapshot().tree == tree
    assert stat.S_IMODE((folder.path / "bin/run").stat().st_mode) == 0o755
    assert (folder.path / "link").readlink() == Path("a.txt")
    (folder.path / "more").mkdir()
    (folder.path / "more/x").write_text("x")
    other = {"a.txt": entry(blobs, "other"), "empty/now": entry(blobs, "full")}
    folder.materialize(other)
    assert read_all(folder.path) == {"a.txt": "other", "empty/now": "full"}
    assert folder.snapshot().tree == other


def test_equal_files_are_not_written_again(folder: Folder, blobs: BlobStore) -> None:
    tree = {"a": entry(blobs, "a"), "b": entry(blobs, "b")}
    folder.materialize(tree)
    before = (folder.path / "a").stat().st_ino
    let_age(folder, tree)
    folder.materialize({**tree, "b": entry(blobs, "changed")})
    assert (folder.path / "a").stat().st_ino == before
    assert (folder.path / "b").read_text() == "changed"


def test_rewrite_with_an_old_time_is_seen(folder: Folder, blobs: BlobStore) -> None:
    folder.materialize({"a": entry(blobs, "old")})
    path = folder.path / "a"
    let_age(folder, ["a"])
    status = path.stat()
    path.write_text("new")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert folder.snapshot().tree == {"a": entry(blobs, "new")}


def plant_link(path: Path) -> None:
    (path / "d").unlink(missing_ok=True)
    (path / "d").symlink_to(path.parent.parent / "secret")


def plant_pipe(path: Path) -> None:
    os.mkfifo(path / "pipe")


def plant_socket(path: Path) -> None:
    os.chdir(path)  # the whole path may be too long for a socket
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")


def plant_names(path: Path) -> None:
    (path / "esc\x1b[31m").write_text("x")
    (path / "bidi\u202e").mkdir()
    (path / "bidi\u202e" / "inside").write_text("x")
    Path(os.fsdecode(os.fsencode(path) + b"/latin\xe9")).write_text("x")
    (path / "back\\slash").write_text("x")


@pytest.mark.parametrize(
    "plant",
    [
        plant_link,
        plant_pipe,
        pytest.param(plant_socket, marks=pytest.mark.process),
        plant_names,
    ],
)
def test_what_programs_left_is_neither_followed_nor_kept(
    folder: Folder, blobs: BlobStore, tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("k")
    folder.materialize({"a": entry(blobs, "a")})
    here = Path.cwd()
    plant(folder.path)
    os.chdir(here)
    found = folder.snapshot()
    assert {path: found.tree[path] for path in found.tree if path != "d"} == {
        "a": entry(blobs, "a")
    }
    if "d" in found.tree:
        assert found.tree["d"].is_link, "the link is kept, and what it names is not"
    assert len(found.left_out) == (0 if plant is plant_link else 4 if plant is plant_names else 1)
    tree = {"a": entry(blobs, "a"), "d/key": entry(blobs, "mine")}
    folder.materialize(tree)
    assert read_all(folder.path) == {"a": "a", "d/key": "mine"}
    assert (secret / "key").read_text() == "k"


def test_files_and_folders_without_rights_are_read_and_replaced(
    folder: Folder, blobs: BlobStore
) -> None:
    folder.materialize({"a/b": entry(blobs, "b"), "c": entry(blobs, "c")})
    (folder.path / "c").chmod(0)
    (folder.path / "a").chmod(0o500)
    folder.path.chmod(0)
    assert folder.snapshot().tree == {"a/b": entry(blobs, "b"), "c": entry(blobs, "c")}
    folder.materialize({})
    assert list(folder.path.iterdir()) == []


@pytest.mark.parametrize("levels", [50, 3_000])
def test_folders_that_are_too_deep_are_left_out_and_can_be_deleted(
    folder: Folder, blobs: BlobStore, levels: int
) -> None:
    folder.materialize({"a": entry(blobs, "a")})
    here = Path.cwd()
    os.chdir(folder.path)
    for _ in range(levels):
        Path("x").mkdir()
        os.chdir("x")
    Path("bottom").write_text("x")
    os.chdir(here)
    found = folder.snapshot()
    assert (found.left_out, len(found.tree)) == (("/".join("x" * 33),), 2)
    folder.materialize({"a": entry(blobs, "a")})
    assert read_all(folder.path.parent) == {"r/a": "a"}


def test_too_many_or_too_large_files_are_refused_before_they_are_stored(
    folder: Folder, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.materialize({})
    (folder.path / "big").touch()
    os.truncate(folder.path / "big", limits.MAX_WORKSPACE_BYTES + 1)
    with pytest.raises(UnusableFolderError, match=r"its files are too large \(limit 256 MiB\)"):
        folder.snapshot()
    (folder.path / "big").unlink()
    monkeypatch.setattr(run_folder, "MAX_WORKSPACE_ENTRIES", 3)
    for number in range(4):
        (folder.path / str(number)).touch()
    with pytest.raises(UnusableFolderError, match=r"too many files \(limit 3\)"):
        folder.snapshot()
    assert not list(blobs.list_stored())


def test_damaged_content_is_not_given_to_programs(folder: Folder, blobs: BlobStore) -> None:
    tree = {"a": entry(blobs, "a")}
    blobs.path_of(tree["a"].sha256).write_bytes(b"b")
    with pytest.raises(DamagedBlob):
        folder.materialize(tree)
    blobs.path_of(tree["a"].sha256).unlink()
    with pytest.raises(DamagedBlob):
        folder.materialize(tree)
    assert folder.snapshot().tree != tree


def test_names_that_no_room_can_have_count_and_are_not_all_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "_MAX_ENTRIES", 10)
    folder.materialize({})
    for number in range(10):
        os.mkfifo(folder.path / f"pipe{number}")
    assert len(folder.snapshot().left_out) == 10
    for number in range(90):
        os.mkfifo(folder.path / f"more{number}")
    read = 0
    scandir = os.scandir

    class Counting:
        def __init__(self, path: object) -> None:
            self._entries = scandir(path)  # type: ignore[call-overload]

        def __enter__(self) -> Counting:
            return self

        def __exit__(self, *_: object) -> None:
            self._entries.close()

        def __iter__(self) -> Counting:
            return self

        def __next__(self) -> object:
            nonlocal read
            read += 1
            return next(self._entries)

    monkeypatch.setattr(os, "scandir", Counting)
    with pytest.raises(UnusableFolderError, match="too many files"):
        folder.snapshot()
    assert read == 11
