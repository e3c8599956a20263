"""The repository of a room: its trees and commits, whole and damaged."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dulwich.objects import Blob, Commit, ObjectID, Tree
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.git.known_versions import read_known_versions
from sshwarma.git.packs import DamagedContentError
from sshwarma.git.tree_writer import TreeWriter
from sshwarma.git.view import MAX_PACKS, DamagedViewError, View
from support.raw_git import BLOB, COMMIT, TREE, commit_of, object_id, pack, packed, tree_of

FILE, PROGRAM, LINK, FOLDER = 0o100644, 0o100755, 0o120000, 0o040000


class Room:
    """Contents and versions of a room that exists nowhere else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = folder / "repository"
        self.work = folder / "work"
        self.work.mkdir()
        self.versions: list[dict[str, Any]] = []
        self._opened: list[View] = []

    def store(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.folder / "blobs" / sha256[:2] / sha256
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return sha256

    def add(
        self, *changes: tuple[str, bytes | None, int], push: list[str] | None = None
    ) -> dict[str, Any]:
        """Make a version that changes paths; None removes one."""
        version = {
            "id": f"v{len(self.versions)}",
            "author": "alice",
            "at": 1_700_000_000 + len(self.versions),
            "message": "Edit\n",
            "push": push,
            "changes": [
                [path, "" if data is None else self.store(data), mode]
                for path, data, mode in changes
            ],
        }
        self.versions.append(version)
        return version

    def open(self) -> View:
        self._opened.append(View(self.repository, self.folder / "blobs", self.work))
        return self._opened[-1]

    def close(self) -> None:
        for view in self._opened:
            view.close()

    def build(self) -> ObjectID:
        """Make the repository of all versions."""
        head = self.open().update(None, self.versions)
        assert head is not None
        return head

    def read(self, commit_id: ObjectID) -> dict[str, tuple[int, bytes]]:
        """The files of a commit: mode and content by path."""
        store = self.open().store
        commit = store[commit_id]
        assert isinstance(commit, Commit)
        found: dict[str, tuple[int, bytes]] = {}

        def walk(tree_id: ObjectID, prefix: str) -> None:
            tree = store[tree_id]
            assert isinstance(tree, Tree)
            for entry in tree.items():
                path = f"{prefix}{entry.path.decode()}"
                if entry.mode == FOLDER:
                    walk(entry.sha, f"{path}/")
                else:
                    found[path] = entry.mode, store[entry.sha].as_raw_string()

        walk(commit.tree, "")
        return found


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.close()


def test_commit_ids_are_those_of_every_release(room: Room) -> None:
    """Another id would break every clone, and every pack that was pushed on top."""
    room.add(("plan.md", b"first\n", FILE), ("src/run", b"#!/bin/sh\n", PROGRAM))
    room.add(("größe", b"../x", LINK), ("hollow", b"", FOLDER), (".git/config", b"x", FILE))
    room.add(("plan.md", None, 0))
    assert room.build() == b"7bda279683679bdef9e1913eb100eb1923135169"


def test_files_follow_the_versions(room: Room) -> None:
    room.add(("a", b"1", FILE), ("d/e/f", b"2", FILE))
    room.add(("a", None, 0), ("a/b", b"3", FILE), ("d/e/f", None, 0))
    room.add(("a/b", None, 0), ("a", b"4", PROGRAM))
    view = room.open()
    heads = []
    for number, version in enumerate(room.versions):
        base = None if number == 0 else f"v{number - 1}"
        heads.append(view.update(base, [version]))
    read = [room.read(head) for head in heads if head is not None]
    assert read == [
        {"a": (FILE, b"1"), "d/e/f": (FILE, b"2")},
        {"a/b": (FILE, b"3")},
        {"a": (PROGRAM, b"4")},
    ]
    assert room.build() == heads[-1]  # at once or one by one


def test_room_whose_files_are_gone_has_an_empty_tree(room: Room) -> None:
    room.add(("d/a", b"1", FILE))
    room.add(("d/a", None, 0))
    assert room.read(room.build()) == {}


def test_earlier_version_is_the_head_again(room: Room) -> None:
    room.add(("a", b"1", FILE))
    room.add(("a", b"2", FILE))
    room.build()
    head = room.open().update("v0", [])
    assert head is not None and room.read(head) == {"a": (FILE, b"1")}
    assert (room.repository / "refs" / "heads" / "main").read_bytes() == head + b"\n"
    assert room.open().update(None, []) is None


def test_damaged_content_is_named(room: Room) -> None:
    version = room.add(("a", b"1", FILE))
    sha256 = version["changes"][0][1]
    path = room.folder / "blobs" / sha256[:2] / sha256
    path.write_bytes(b"2")
    with pytest.raises(DamagedContentError, match=sha256):
        room.build()
    path.unlink()
    with pytest.raises(DamagedContentError, match=sha256):
        room.build()
    assert read_known_versions(room.repository) == {}


def test_repository_without_its_objects_is_damaged(room: Room) -> None:
    room.add(("a", b"1", FILE))
    room.build()
    for file in (room.repository / "objects" / "pack").iterdir():
        file.unlink()
    with pytest.raises(DamagedViewError):
        room.open().update("v0", [room.add(("b", b"2", FILE))])
    with pytest.raises(DamagedViewError):
        room.open().update("v99", [])


def test_list_of_versions_that_was_cut_off_is_read_up_to_there(room: Room) -> None:
    room.add(("a", b"1", FILE))
    room.add(("a", b"2", FILE))
    room.build()
    names = room.repository / "versions"
    names.write_text(names.read_text()[:-5])
    assert list(read_known_versions(room.repository)) == ["v0"]
    names.write_text("another format\nv0 x\n")
    assert read_known_versions(room.repository) == {}


def make_push(parent: ObjectID, data: bytes) -> tuple[bytes, str]:
    """A pack with a commit after another, and its id."""
    tree, tree_id = tree_of(("100644", "pushed", object_id(b"blob", data)))
    commit, head = commit_of(tree_id, parent.decode())
    return pack([packed(COMMIT, commit), packed(TREE, tree), packed(BLOB, data)]), head


def test_pushed_commit_keeps_its_id(room: Room) -> None:
    room.add(("a", b"1", FILE))
    pushed, head = make_push(room.build(), b"2")
    push = [head, room.store(pushed)]
    room.add(("a", None, 0), ("pushed", b"2", FILE), push=push)
    room.add(("b", b"3", FILE))
    tip = room.build()
    commit = room.open().store[tip]
    assert isinstance(commit, Commit) and commit.parents == [head.encode()]
    assert room.read(tip) == {"pushed": (FILE, b"2"), "b": (FILE, b"3")}
    shutil.rmtree(room.repository)
    assert room.build() == tip


@pytest.mark.parametrize("damage", ["missing", "garbage", "other parent"])
def test_lost_push_becomes_a_commit_of_its_own(room: Room, damage: str) -> None:
    room.add(("a", b"1", FILE))
    parent = room.build()
    pushed, head = make_push(ObjectID(b"9" * 40) if damage == "other parent" else parent, b"2")
    sha256 = room.store(pushed)
    path = room.folder / "blobs" / sha256[:2] / sha256
    if damage == "missing":
        path.unlink()
    elif damage == "garbage":
        path.write_bytes(pushed[:30])
    room.add(("a", None, 0), ("pushed", b"2", FILE), push=[head, sha256])
    tip = room.build()
    assert tip != head.encode()
    assert room.read(tip) == {"pushed": (FILE, b"2")}
    commit = room.open().store[tip]
    assert isinstance(commit, Commit) and commit.parents == [parent]


def test_many_small_packs_become_one(room: Room) -> None:
    view = room.open()
    for number in range(MAX_PACKS + 2):
        base = f"v{number - 1}" if number else None
        view.update(base, [room.add((f"f{number}", b"%d" % number, FILE))])
    folder = room.repository / "objects" / "pack"
    assert len(list(folder.glob("*.pack"))) == MAX_PACKS + 2
    view = room.open()
    view.merge_small_packs()
    assert len(list(folder.glob("*.pack"))) == len(list(folder.glob("*.idx"))) == 1
    head = view.update(f"v{MAX_PACKS + 1}", [])
    assert head is not None and len(room.read(head)) == MAX_PACKS + 2


paths = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)


@given(st.lists(st.tuples(paths, st.booleans()), max_size=12))
def test_tree_is_that_of_its_files(steps: list[tuple[str, bool]]) -> None:
    """One that followed changes equals one that is made of the files at once."""
    blob = Blob.from_string(b"x").id
    made: dict[ObjectID, Tree] = {}

    def add(tree: object) -> None:
        assert isinstance(tree, Tree)
        made[tree.id] = tree

    files: set[str] = set()
    root: ObjectID | None = None
    for path, is_set in steps:
        writer = TreeWriter(made.__getitem__, root)
        if is_set:
            above = {path[:end] for end in range(len(path)) if path[end] == "/"}
            files = {other for other in files - above if not other.startswith(f"{path}/")} | {path}
            writer.set(path, FILE, blob)
        else:
            files = {other for other in files if other != path and not other.startswith(f"{path}/")}
            writer.remove(path)
        root = writer.write(add)
    whole = TreeWriter(made.__getitem__, None)
    for path in sorted(files):
        whole.set(path, FILE, blob)
    assert root is None or whole.write(add) == root
