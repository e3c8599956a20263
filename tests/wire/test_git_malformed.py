"""Pushed objects that `git fsck --strict` refuses, and clones after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.driver import Person, Server
from support.git_client import WITHOUT_GIT, GitClient
from support.malformed_git import COMMITS, TREES, malformed_push
from support.raw_git import (
    BLOB,
    COMMIT,
    TREE,
    command,
    commit_of,
    object_id,
    pack,
    packed,
    send,
    tree_of,
)

ZERO = "0" * 40
FSCK = ("-c", "transfer.fsckObjects=true")


@pytest.mark.parametrize("kind", [*TREES, *COMMITS])
def test_malformed_object_is_refused_by_its_id_and_leaves_nothing(
    world: Server, alice: Person, room: str, kind: str
) -> None:
    blobs = sorted((world.data_dir / "blobs").rglob("*"))
    sent, head, wrong, said = malformed_push(kind)
    answer = send(alice, room, command(ZERO, head) + sent).decode(errors="replace")
    assert "ng refs/heads/main" in answer, answer
    assert said in answer, answer
    if "malformed" in answer:
        assert wrong[:12] in answer, answer
    assert alice.json(f"file history --room {room}")["versions"] == []
    assert sorted((world.data_dir / "blobs").rglob("*")) == blobs
    assert not list((world.data_dir / "cache" / "git" / "work").glob("*"))


@pytest.mark.skipif(bool(WITHOUT_GIT), reason=WITHOUT_GIT)
def test_room_can_be_cloned_strictly_after_refused_pushes(
    alice: Person, room: str, tmp_path: Path
) -> None:
    alice.does(f"file put plan.md --room {room} = good")
    git = GitClient(alice, tmp_path)
    clone = git.clone(room)
    before = git.does("rev-parse", "HEAD", cwd=clone).strip()
    for kind in ("name twice", "NUL in the message", "folder of modules"):
        sent, head, _, said = malformed_push(kind, before)
        answer = send(alice, room, command(before, head) + sent)
        assert b"ng refs/heads/main" in answer
        assert said.encode() in answer
    git.does(*FSCK, "clone", "-q", git.url(room), "again")
    assert (tmp_path / "again" / "plan.md").read_text() == "good\n"


def test_malformed_folder_deep_down_is_named(alice: Person, room: str) -> None:
    blob = object_id(b"blob", b"x\n")
    wrong, wrong_id = tree_of(("100644", "b", blob), ("100644", "a", blob))
    middle, middle_id = tree_of(("40000", "deep", wrong_id))
    top, top_id = tree_of(("40000", "docs", middle_id))
    commit, head = commit_of(top_id)
    trees = [packed(TREE, tree) for tree in (wrong, middle, top)]
    sent = pack([packed(COMMIT, commit), *trees, packed(BLOB, b"x\n")])
    answer = send(alice, room, command(ZERO, head) + sent).decode()
    expected = f"the tree {wrong_id.hex()[:12]} of 'docs/deep/' is malformed: it is not sorted"
    assert expected in answer, answer
