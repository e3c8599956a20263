"""Rooms as repositories for the stock git: clone and fetch."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from support.copying import read_tree, scp
from support.driver import Person, Server
from support.git_client import WITHOUT_GIT, GitClient

pytestmark = pytest.mark.skipif(bool(WITHOUT_GIT), reason=WITHOUT_GIT)


@pytest.fixture
def git(alice: Person, tmp_path: Path) -> GitClient:
    return GitClient(alice, tmp_path / "alice")


@pytest.fixture
def his(bob: Person, tmp_path: Path) -> GitClient:
    return GitClient(bob, tmp_path / "bob")


def put(person: Person, room: str, path: str, data: bytes | str) -> None:
    done = person.run(f"file put {path} --room {room}", data)
    assert done.status == 0, done


def test_clone_has_the_files_of_the_room(
    alice: Person, room: str, git: GitClient, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "hollow").mkdir()
    (tree / "größe und mehr.md").write_text("grüße\n")
    (tree / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (tree / "deep" / "run.sh").chmod(0o755)
    (tree / "deep" / "er" / "nothing").touch()
    (tree / "large").write_bytes(os.urandom(3_000_000))
    copied = scp(alice, "-r", f"{tree}/.", f":rooms/{room}/workspace")
    assert copied.returncode == 0, copied
    put(
        alice, room, ".GIT/config", "[core]\n\tfsmonitor = evil\n"
    )  # left out: a client would use it
    clone = git.clone(room)
    shutil.rmtree(clone / ".git")
    assert read_tree(clone) == read_tree(tree)
    assert stat.S_IMODE((clone / "deep" / "run.sh").stat().st_mode) & 0o111
    assert not (clone / "hollow").exists()  # git has no empty folders


def test_each_version_is_a_commit_with_its_author(
    alice: Person, bob: Person, room: str, git: GitClient
) -> None:
    put(alice, room, "plan.md", "first\n")
    put(bob, room, "plan.md", "second\n")
    put(bob, room, "docs/a.md", "a\n")
    alice.does(f"file rm docs --room {room}")
    clone = git.clone(room)
    log = git.does("log", "--reverse", "--format=%an <%ae>|%s", cwd=clone).splitlines()
    assert log == [
        f"{alice.name} <{alice.name}@sshwarma>|Upload plan.md",
        f"{bob.name} <{bob.name}@sshwarma>|Upload plan.md",
        f"{bob.name} <{bob.name}@sshwarma>|Upload docs/a.md",
        f"{alice.name} <{alice.name}@sshwarma>|Remove docs/a.md",
    ]
    versions = alice.json(f"file history --room {room}")["versions"]
    bodies = git.does("log", "--format=%b", cwd=clone)
    assert [line for line in bodies.splitlines() if line.startswith("Version: ")] == [
        f"Version: {version['id']}" for version in versions
    ]
    assert git.does("show", "HEAD~2:plan.md", cwd=clone) == "second\n"
    assert git.does("rev-parse", "--abbrev-ref", "HEAD", cwd=clone) == "main\n"
    assert git.does("fsck", "--full", "--strict", cwd=clone) == ""


def test_room_without_files_is_an_empty_repository(room: str, git: GitClient) -> None:
    done = git.tries("clone", git.url(room), "clone")
    assert done.status == 0, done
    assert "empty repository" in done.err


def test_fetch_brings_the_versions_of_others(
    alice: Person, bob: Person, room: str, git: GitClient
) -> None:
    put(alice, room, "a", "1\n")
    clone = git.clone(room)
    before = git.head(clone)
    put(bob, room, "b", "2\n")
    git.does("pull", "-q", "--ff-only", cwd=clone)
    assert git.head(clone, "HEAD~1") == before
    assert (clone / "b").read_text() == "2\n"
    shallow = git.folder / "shallow"
    git.does("clone", "-q", "--depth", "1", git.url(f"{room}.git"), str(shallow))
    assert git.head(shallow) == git.head(clone)


def test_ids_stay_without_the_cache(
    world: Server, alice: Person, room: str, git: GitClient
) -> None:
    for number in range(4):
        put(alice, room, f"file{number}", f"{number}\n")
    clone = git.clone(room)
    before = git.head(clone)
    room_id = alice.json(f"room --room {room}").get("id", "")
    found = [path for path in (world.data_dir / "cache" / "git").iterdir() if path.name != "work"]
    assert found
    for path in found:
        if not room_id or path.name == room_id:
            shutil.rmtree(path)
    again = git.clone(room, "again")
    assert git.head(again) == before


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere", "Unknown room nowhere."),
        ("a/b", "A repository here is the files of a room."),
        ("", "A repository here is the files of a room."),
    ],
)
def test_refusal_is_an_error_of_the_remote(git: GitClient, path: str, said: str) -> None:
    done = git.tries("clone", git.url(path), "clone")
    assert done.status == 128
    assert f"fatal: remote error: {said}" in done.err


def test_private_room_is_refused_as_an_unknown_one(
    alice: Person, git: GitClient, his: GitClient
) -> None:
    room = f"zq{alice.name[-3:]}zqzqzq"  # like no other: near names would be suggested
    alice.does(f"create {room}")
    put(alice, room, "a", "1\n")
    alice.does(f"room private --room {room}")
    git.clone(room)
    near = f"{room}x"
    refused = his.tries("clone", his.url(room), "clone")
    unknown = his.tries("clone", his.url(near), "clone")
    assert refused.status == 128
    assert f"fatal: remote error: Unknown room {room}." in refused.err
    assert refused.err.replace(room, "X") == unknown.err.replace(near, "X")


def test_other_programs_of_git_are_refused(alice: Person, room: str, git: GitClient) -> None:
    done = git.tries("archive", f"--remote={git.url(room)}", "HEAD")
    assert done.status != 0
    assert "git archive does not work here" in done.err
    typed = alice.run(f"git clone {room}", b"", "-T")
    assert typed.status != 0
    assert "git clone ssh://" in typed.err
    terminal = alice.run(f"git-upload-pack {room}", b"", "-tt")
    assert "for git, not for terminals" in terminal.out + terminal.err


def test_banned_person_loses_the_repository(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve()
    ann = server.person("ann")
    ann.does("create den")
    put(server.owner, "den", "a", "1\n")
    git = GitClient(ann, tmp_path / "ann")
    git.clone("den")
    assert server.owner.run("ban ann --room den").status == 0
    refused = git.tries("clone", git.url("den"), "again")
    assert refused.status == 128
    assert "remote error" in refused.err
