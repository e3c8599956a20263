"""Checks of single objects, beside those of the stock git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sshwarma.git.fsck import (
    MalformedObjectError,
    check_commit,
    check_tree,
    find_attributes_problem,
    read_tree,
)
from sshwarma.git.names import ATTRIBUTES, MODULES, is_special_name
from support.git_client import WITHOUT_GIT
from support.malformed_git import COMMITS, TREES, malformed_commit, malformed_tree
from support.raw_git import object_id, tree_of

STRICT = ("-c", "core.protectHFS=true", "-c", "core.protectNTFS=true")


def fsck(folder: Path, kind: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    subprocess.run(["git", "init", "-q", "--bare", folder], check=True)
    for each, content in (
        ("blob", b"x\n"),
        ("blob", b"y\n"),
        ("tree", tree_of(A)[0]),
        (kind, data),
    ):
        subprocess.run(
            ["git", "-C", folder, "hash-object", "-t", each, "-w", "--literally", "--stdin"],
            input=content,
            capture_output=True,
            check=True,
        )
    return subprocess.run(
        ["git", "-C", folder, *STRICT, "fsck", "--strict"], capture_output=True, check=False
    )


A = ("100644", "a", object_id(b"blob", b"x\n"))


@pytest.mark.process
@pytest.mark.skipif(bool(WITHOUT_GIT), reason=WITHOUT_GIT)
@pytest.mark.parametrize("kind", [kind for kind in TREES if kind != "modules of submodules"])
def test_malformed_trees_are_those_that_git_refuses(kind: str, tmp_path: Path) -> None:
    done = fsck(tmp_path, "tree", malformed_tree(kind)[0])
    assert done.returncode != 0, done


@pytest.mark.process
@pytest.mark.skipif(bool(WITHOUT_GIT), reason=WITHOUT_GIT)
@pytest.mark.parametrize("kind", COMMITS)
def test_malformed_commits_are_those_that_git_refuses(kind: str, tmp_path: Path) -> None:
    commit = malformed_commit(kind, tree_of(A)[1])
    with pytest.raises(MalformedObjectError):
        check_commit(commit)
    done = fsck(tmp_path, "commit", commit)
    assert done.returncode != 0, done


def test_good_objects_are_read_as_they_are() -> None:
    inner = tree_of(A)[1]
    data, _ = tree_of(A, ("100755", "a.b", A[2]), ("40000", "b", inner), ("120000", "b0", A[2]))
    assert [entry.path for entry in check_tree(data)] == [b"a", b"a.b", b"b", b"b0"]
    twice, _ = tree_of(A, ("100644", "a", inner))
    assert [entry.sha for entry in read_tree(twice)] == [A[2].hex().encode(), inner.hex().encode()]
    check_commit(
        b"tree %b\nparent %b\nauthor  <> 0 -0000\ncommitter A <a@b> 1 +0100\n"
        b"gpgsig x\n y\n\nm" % (b"a" * 40, b"b" * 40)
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"100644 a\0short", "in the middle"),
        (b"100644", "in the middle"),
        (b" a\0" + bytes(20), "no number"),
        (b"100644 " + b"n" * 256 + b"\0" + bytes(20), "256 bytes"),
    ],
)
def test_tree_that_cannot_be_read_is_malformed(data: bytes, said: str) -> None:
    with pytest.raises(MalformedObjectError, match=said):
        check_tree(data)


@pytest.mark.parametrize(
    ("name", "of"),
    [
        (".gitmodules", MODULES),
        (".GitModules. .", MODULES),
        (".gitmodules:x", MODULES),
        ("gitmod~4", MODULES),
        ("gi7eba~1", MODULES),
        ("gi7eb~10", MODULES),
        ("~1000000", MODULES),
        ("GITATT~1", ATTRIBUTES),
        ("gi7d29~9", ATTRIBUTES),
    ],
)
def test_special_names_are_found_in_every_spelling(name: str, of: str) -> None:
    assert is_special_name(name, of)


@pytest.mark.parametrize("name", ["gitmodules", ".gitmodules2", "gitmod~5", "gi7eba~0", "gi7eba"])
def test_other_names_are_not_special(name: str) -> None:
    assert not is_special_name(name, MODULES)


def test_attributes_have_short_lines() -> None:
    assert find_attributes_problem(b"*.md text\n" * 1000) == ""
    assert find_attributes_problem(b"a" * 2047 + b"\n") == ""
    assert "2,047" in find_attributes_problem(b"\n" + b"a" * 2048)
