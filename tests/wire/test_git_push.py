"""Pushes of the stock git: what becomes a version, and what is refused."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.driver import Person, Server
from support.git_client import WITHOUT_GIT, GitClient, GitDone

pytestmark = pytest.mark.skipif(bool(WITHOUT_GIT), reason=WITHOUT_GIT)


@pytest.fixture
def git(alice: Person, tmp_path: Path) -> GitClient:
    return GitClient(alice, tmp_path / "alice")


@pytest.fixture
def his(bob: Person, tmp_path: Path) -> GitClient:
    return GitClient(bob, tmp_path / "bob")


@pytest.fixture
def clone(alice: Person, room: str, git: GitClient) -> Path:
    """A clone of a room with one file."""
    put(alice, room, "plan.md", "first\n")
    return git.clone(room)


def put(person: Person, room: str, path: str, data: bytes | str) -> None:
    done = person.run(f"file put {path} --room {room}", data)
    assert done.status == 0, done


def versions(person: Person, room: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = person.json(f"file history --room {room}")["versions"]
    return found


def leftovers(server: Server) -> list[Path]:
    """What sessions left in their directories."""
    return list((server.data_dir / "cache" / "git" / "work").glob("*"))


def test_push_is_a_version_that_the_room_sees(
    alice: Person, bob: Person, room: str, git: GitClient, clone: Path
) -> None:
    screen = bob.sit(room=room)
    (clone / "src").mkdir()
    (clone / "src" / "run.sh").write_text("#!/bin/sh\n")
    (clone / "src" / "run.sh").chmod(0o755)
    (clone / "bin").write_bytes(bytes(range(256)))
    (clone / "größe.md").write_text("grüße\n")
    (clone / "src" / "link").symlink_to("../plan.md")
    git.commit(clone, "one")
    (clone / "plan.md").write_text("changed\n")
    head = git.commit(clone, "two")
    done = git.push(clone)
    assert done.status == 0, done
    screen.wait_for(f"{alice.name} changed 5 files by git push: bin, größe.md, plan.md")
    assert "changed" in bob.does(f"file show plan.md --room {room}")
    assert alice.run(f"file get bin --room {room}").raw == bytes(range(256))
    kinds = {item["path"]: item["kind"] for item in bob.json(f"files --room {room}")["files"]}
    assert kinds["src/run.sh"] == "program" and kinds["src/link"] == "link"
    made = versions(alice, room)
    assert len(made) == 2
    assert (made[0]["source"], made[0]["source_ref"]) == ("git_push", head)
    again = git.clone(room, "again")
    assert git.head(again) == head
    audit = alice.server.owner.json('audit --verb "git push"')["rows"]
    assert any("by git push" in row["request"] and row["agent"] == alice.name for row in audit)


def test_first_push_fills_a_room_without_files(alice: Person, room: str, git: GitClient) -> None:
    git.does("clone", "-q", git.url(room), "clone")
    clone = git.folder / "clone"
    (clone / "a").write_text("a\n")
    head = git.commit(clone, "first")
    assert git.push(clone).status == 0
    assert alice.run(f"file get a --room {room}").raw == b"a\n"
    assert git.head(git.clone(room, "again")) == head


def test_push_behind_a_change_of_somebody_else_is_refused_until_merged(
    alice: Person, bob: Person, room: str, git: GitClient, clone: Path
) -> None:
    (clone / "mine").write_text("mine\n")
    git.commit(clone, "mine")
    put(bob, room, "his", "his\n")
    refused = git.push(clone)
    assert refused.status == 1
    assert "fetch first" in refused.err
    assert [item["source"] for item in versions(alice, room)] == ["user_upload"] * 2
    git.does("pull", "-q", "--no-rebase", "--no-edit", cwd=clone)
    assert git.push(clone).status == 0
    paths = [item["path"] for item in alice.json(f"files --room {room}")["files"]]
    assert paths == ["his", "mine", "plan.md"]
    forced = git.push(clone, "--force", "origin", "HEAD~1:main")
    assert forced.status == 1
    assert "[remote rejected]" in forced.err and "fetch first" in forced.err


def test_files_that_no_clone_has_stay_in_the_room(
    alice: Person, room: str, git: GitClient, clone: Path
) -> None:
    alice.does(f"file mkdir hollow --room {room}")
    put(alice, room, "kept/.git/config", "[core]\n")
    put(alice, room, ".gitmodules", '[submodule "x"]\n\tpath = x\n\turl = -uevil\n')
    git.does("-c", "transfer.fsckObjects=true", "pull", "-q", cwd=clone)
    (clone / "new").write_text("new\n")
    git.commit(clone, "new")
    assert git.push(clone).status == 0
    paths = [item["path"] for item in alice.json(f"files --room {room}")["files"]]
    assert paths == [".gitmodules", "hollow", "kept/.git/config", "new", "plan.md"]


def test_commits_without_a_change_are_kept(
    alice: Person, room: str, git: GitClient, clone: Path
) -> None:
    head = git.commit(clone, "nothing, but said")
    assert git.push(clone).status == 0
    assert versions(alice, room)[0]["source"] == "git_push"
    put(alice, room, "more", "more\n")
    again = git.clone(room, "again")
    assert git.head(again, "HEAD~1") == head


def tree(git: GitClient, clone: Path, *entries: str) -> str:
    """Make a tree of lines of `git mktree`; `{blob}` is a file; returns its id."""
    blob = git.does("hash-object", "-w", "--stdin", cwd=clone, stdin=b"evil\n").strip()
    text = "".join(f"{entry}\n" for entry in entries).replace("{blob}", blob)
    return git.does("mktree", "--missing", cwd=clone, stdin=text.encode()).strip()


def link(git: GitClient, clone: Path, target: str) -> str:
    """Store the target of a link; returns its id."""
    return git.does("hash-object", "-w", "--stdin", cwd=clone, stdin=target.encode()).strip()


def push_tree(git: GitClient, clone: Path, tree_id: str) -> GitDone:
    """Push a commit with a tree after the head of a clone."""
    commit = git.does("commit-tree", tree_id, "-p", "HEAD", "-m", "x", cwd=clone).strip()
    return git.push(clone, "origin", f"{commit}:refs/heads/main")


def hostile(git: GitClient, clone: Path, kind: str) -> tuple[str, str]:
    """Return the id of a hostile tree, and what the refusal says."""
    ours = git.head(clone)
    nested = tree(git, clone, "100644 blob {blob}\tx")
    trees: dict[str, tuple[tuple[str, ...], str]] = {
        "submodule": ((f"160000 commit {ours}\tsub",), "sub is a submodule"),
        ".git": ((f"040000 tree {nested}\t.git",), "the name .git is git's own"),
        ".GIT": ((f"040000 tree {nested}\t.GIT",), "the name .GIT is git's own"),
        ".git.": ((f"040000 tree {nested}\t.git.",), "git's own"),
        "git~1": (("100644 blob {blob}\tgit~1",), "the name git~1 is git's own"),
        "..": ((f"040000 tree {nested}\t..",), "leaves its folder"),
        ".": ((f"040000 tree {nested}\t.",), "leaves its folder"),
        "backslash": (("100644 blob {blob}\ta\\b",), "leaves its folder"),
        "control": (("100644 blob {blob}\ta\u200bb",), "U+200B"),
        "tilde": (("100644 blob {blob}\t~x",), "must be relative"),
        "long": (("100644 blob {blob}\t" + "x" * 256,), "has a name of 256 bytes"),
        "absolute link": (
            (f"120000 blob {link(git, clone, '/etc/passwd')}\tl",),
            "the link l leaves",
        ),
        "link up": ((f"120000 blob {link(git, clone, '../x')}\tl",), "the link l leaves"),
        "link over a link": (
            (f"120000 blob {link(git, clone, 'd/../../x')}\tl",),
            "the link l leaves",
        ),
        "link to git": ((f"120000 blob {link(git, clone, '.git/hooks')}\tl",), "the link l leaves"),
        "missing": ((f"100644 blob {'1' * 40}\tx",), ""),
    }
    entries, said = trees[kind]
    return tree(git, clone, *entries), said


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "submodule",
            ".git",
            ".GIT",
            ".git.",
            "git~1",
            "..",
            ".",
            "backslash",
            "control",
            "tilde",
        ),
        *("long", "absolute link", "link up", "link over a link", "link to git"),
    ],
)
def test_hostile_tree_is_refused_and_leaves_nothing(
    alice: Person, world: Server, room: str, git: GitClient, clone: Path, kind: str
) -> None:
    before, blobs = versions(alice, room), sorted((world.data_dir / "blobs").rglob("*"))
    tree_id, said = hostile(git, clone, kind)
    done = push_tree(git, clone, tree_id)
    assert done.status == 1, done
    assert "! [remote rejected]" in done.err
    assert said in done.err, done.err
    assert versions(alice, room) == before
    assert sorted((world.data_dir / "blobs").rglob("*")) == blobs
    assert not leftovers(world)
    objects = world.data_dir / "cache" / "git"
    assert not any(bytes.fromhex(tree_id) in file.read_bytes() for file in objects.rglob("*.idx"))


def test_hostile_commit_between_is_refused(
    alice: Person, room: str, git: GitClient, clone: Path
) -> None:
    tree_id, said = hostile(git, clone, ".git")
    evil = git.does("commit-tree", tree_id, "-p", "HEAD", "-m", "x", cwd=clone).strip()
    clean = git.does("rev-parse", "HEAD^{tree}", cwd=clone).strip()
    tip = git.does("commit-tree", clean, "-p", evil, "-m", "y", cwd=clone).strip()
    done = git.push(clone, "origin", f"{tip}:refs/heads/main")
    assert done.status == 1 and said in done.err
    assert len(versions(alice, room)) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("origin", "HEAD:other"), "a room has one branch, main"),
        (("origin", "HEAD:main", "HEAD:other"), "a room has one branch, main"),
        (("origin", "HEAD:refs/tags/v1"), "a room has one branch, main"),
        (("origin", ":main"), "deleting"),
    ],
)
def test_other_refs_are_refused(
    alice: Person, room: str, git: GitClient, clone: Path, words: tuple[str, ...], said: str
) -> None:
    (clone / "x").write_text("x\n")
    git.commit(clone, "x")
    done = git.push(clone, *words)
    assert done.status == 1
    assert said in done.err
    assert len(versions(alice, room)) == 1


@pytest.mark.soak
def test_too_many_bytes_are_refused(
    alice: Person, world: Server, room: str, git: GitClient, clone: Path
) -> None:
    with (clone / "zeros").open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    git.commit(clone, "zeros")
    done = git.push(clone)
    assert done.status == 1
    assert "zeros has 314,572,800 bytes, and a file may have 268,435,456" in done.err
    assert len(versions(alice, room)) == 1
    assert not leftovers(world)


def test_rights_are_those_of_file_put(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve()
    owner, ann = server.owner, server.person("ann")
    guest = server.person("gast", role="guest")
    put(owner, "lobby", "a", "1\n")
    clients = {one.name: GitClient(one, tmp_path / one.name) for one in (ann, guest)}
    clones = {name: client.clone("lobby") for name, client in clients.items()}
    for name, client in clients.items():
        (clones[name] / name).write_text("x\n")
        client.commit(clones[name], name)
    refused = clients["gast"].push(clones["gast"])
    assert refused.status == 128
    assert "fatal: remote error: Permission denied" in refused.err
    assert owner.run("mute ann").status == 0
    refused = clients["ann"].push(clones["ann"])
    assert refused.status == 128 and "You are muted in lobby" in refused.err
    assert owner.run("unmute ann").status == 0
    assert clients["ann"].push(clones["ann"]).status == 0
    assert [item["source"] for item in versions(owner, "lobby")] == ["git_push", "user_upload"]


def test_volume_counts_as_that_of_file_put(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(limits__files_mib_per_hour=1)
    git = GitClient(server.owner, tmp_path / "owner")
    git.does("clone", "-q", git.url("lobby"), "clone")
    clone = git.folder / "clone"
    (clone / "noise").write_bytes(os.urandom(700_000))
    git.commit(clone, "noise")
    done = git.push(clone)
    assert done.status == 1
    assert "[remote rejected]" in done.err
    assert versions(server.owner, "lobby") == []


def test_server_that_is_killed_leaves_the_version_before(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve()
    git = GitClient(server.owner, tmp_path / "owner")
    put(server.owner, "lobby", "a", "1\n")
    clone = git.clone("lobby")
    before = git.head(clone)
    for name in ("core.compression", "pack.compression"):
        git.does("config", name, "0", cwd=clone)
    (clone / "noise").write_bytes(os.urandom(60_000_000))
    git.commit(clone, "noise")
    pushing = git.start("push", "origin", "HEAD:main", cwd=clone)
    deadline = time.monotonic() + 30
    while not any(path.stat().st_size for path in work_files(server)):
        assert time.monotonic() < deadline and pushing.poll() is None, pushing.communicate()
        time.sleep(0.01)
    server.kill()
    _, said = pushing.communicate(timeout=60)
    assert pushing.returncode != 0, said
    server.start()
    assert not leftovers(server)
    assert [item["source"] for item in versions(server.owner, "lobby")] == ["user_upload"]
    again = git.clone("lobby", "again")
    assert git.head(again) == before
    git.does("remote", "set-url", "origin", git.url("lobby"), cwd=clone)
    assert git.push(clone).status == 0


def work_files(server: Server) -> list[Path]:
    return list((server.data_dir / "cache" / "git" / "work").glob("*/received.pack"))


def test_pushed_commits_keep_their_ids_through_gc_backup_and_restore(
    serve: Callable[..., Server], tmp_path: Path
) -> None:
    server = serve()
    owner = server.owner
    git = GitClient(owner, tmp_path / "owner")
    put(owner, "lobby", "a", "1\n")
    clone = git.clone("lobby")
    (clone / "b").write_text("b\n")
    pushed = git.commit(clone, "mine, with my words")
    assert git.push(clone).status == 0
    put(owner, "lobby", "c", "3\n")
    git.does("pull", "-q", cwd=clone)
    head = git.head(clone)
    assert git.head(clone, "HEAD~1") == pushed
    for blob in (server.data_dir / "blobs").glob("??/*"):
        os.utime(blob, (0, 0))
    assert "Deleted 0 contents" in owner.does("gc files --yes")
    backup = tmp_path / "backup.tgz"
    made = server.cli("backup", str(backup), "--json")
    assert made.returncode == 0, made
    assert json.loads(made.stdout)["blobs"] == 4  # three files and a pack
    new = serve()
    new.stop()
    new.data_dir = new.home / "restored"
    done = new.cli("restore", str(backup))
    assert done.returncode == 0, done
    new.start()
    new_owner = Person(new, owner.name, owner.identity)
    other = GitClient(new_owner, tmp_path / "other")
    again = other.clone("lobby")
    assert other.head(again) == head
    assert other.does("fsck", "--full", "--strict", cwd=again) == ""


def test_shallow_clone_can_push(alice: Person, room: str, git: GitClient, clone: Path) -> None:
    put(alice, room, "plan.md", "second\n")
    put(alice, room, "plan.md", "third\n")
    shallow = git.folder / "shallow"
    git.does("clone", "-q", "--depth", "1", git.url(room), str(shallow))
    (shallow / "new").write_text("new\n")
    head = git.commit(shallow, "new")
    assert git.push(shallow).status == 0
    git.does("pull", "-q", cwd=clone)
    assert git.head(clone) == head
    git.does("fetch", "-q", "--unshallow", cwd=shallow)
    assert git.does("rev-list", "--count", "HEAD", cwd=shallow) == "4\n"


def test_content_of_an_old_version_can_come_back(
    alice: Person, room: str, git: GitClient, clone: Path
) -> None:
    put(alice, room, "plan.md", "second\n")
    git.does("pull", "-q", cwd=clone)
    git.does("checkout", "-q", "HEAD~1", "--", ".", cwd=clone)
    git.commit(clone, "back")
    assert git.push(clone).status == 0
    assert alice.run(f"file get plan.md --room {room}").raw == b"first\n"
