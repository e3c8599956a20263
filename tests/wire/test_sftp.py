"""Rooms as folders for the stock sftp and scp: what is there, what a copy makes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from support.copying import read_tree, scp, sftp
from support.driver import Person, Server


def versions(person: Person, room: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = person.json(f"file history --room {room}")["versions"]
    return found


def names(person: Person, room: str) -> list[str]:
    return [item["path"] for item in person.json(f"files --room {room}")["files"]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a program, an empty file, an empty folder, a large file."""
    folder = tmp_path / "tree"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "hollow").mkdir()
    (folder / "größe und mehr.md").write_text("grüße\n")
    (folder / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "deep" / "run.sh").chmod(0o755)
    (folder / "deep" / "er" / "nothing").touch()
    (folder / "large").write_bytes(os.urandom(3_000_000))
    return folder


def test_tree_is_copied_up_and_back_as_one_version(
    alice: Person, room: str, tree: Path, tmp_path: Path
) -> None:
    up = scp(alice, "-r", "-p", str(tree), f":rooms/{room}/workspace/")
    assert (up.returncode, up.stderr) == (0, "")
    made = versions(alice, room)
    assert len(made) == 1
    assert made[0]["source"] == "user_upload"
    back = tmp_path / "back"
    down = scp(alice, "-r", "-p", f":rooms/{room}/workspace/tree", str(back))
    assert (down.returncode, down.stderr) == (0, "")
    assert read_tree(back) == read_tree(tree)
    assert (back / "hollow").is_dir()
    assert stat.S_IMODE((back / "deep" / "run.sh").stat().st_mode) == 0o755
    again = scp(alice, "-r", "-p", str(tree), f":rooms/{room}/workspace/")
    assert again.returncode == 0
    assert versions(alice, room) == made  # nothing has changed
    log = alice.does(f"history --room {room}")
    assert re.search(rf"{alice.name} changed 4 files by sftp: tree/deep/er/nothing", log)
    assert log.count("by sftp") == 1


def test_folders_are_those_of_the_rooms_that_one_may_enter(alice: Person, bob: Person) -> None:
    open_room, closed = f"{alice.name}-a", f"{alice.name}-b"
    alice.does(f"create {open_room}", f"create {closed}", f"room private --room {closed}")
    seen = sftp(alice, "ls -1", "ls -1 rooms", f"ls -1 rooms/{open_room}").stdout
    assert {"rooms", f"rooms/{open_room}", f"rooms/{closed}"} <= set(seen.splitlines())
    for name in ("journal.md", "log.md", "things", "workspace"):
        assert f"rooms/{open_room}/{name}" in seen.splitlines()
    his = sftp(bob, "ls -1 rooms", f"-ls rooms/{closed}", f"-get rooms/{closed}/log.md /dev/null")
    assert f"rooms/{open_room}" in his.stdout.splitlines()
    assert f"rooms/{closed}" not in his.stdout.splitlines()
    assert f'Can\'t ls: "/rooms/{closed}" not found' in his.stderr
    assert f'File "/rooms/{closed}/log.md" not found.' in his.stderr


def test_texts_of_a_room_are_those_of_its_verbs(alice: Person, room: str, tmp_path: Path) -> None:
    at = f"--room {room}"
    alice.does(f"say {at} hello there", f"note {at} the relay is 10.0.0.9")
    alice.does(f"put prompt:style {at} = Short answers")
    got = scp(alice, "-r", f":rooms/{room}", str(tmp_path / "got"))
    assert (got.returncode, got.stderr) == (0, "")
    texts = read_tree(tmp_path / "got")
    exported = alice.run(f"export room {at}").raw.decode()
    same = re.compile(r"Exported [-\d: ]+\.")
    assert same.sub("", texts["log.md"].decode()) == same.sub("", exported)
    assert "[note]: the relay is 10.0.0.9" in texts["journal.md"].decode()
    shown = alice.run(f"examine prompt:style {at}").raw
    assert texts["things/prompt:style.md"] == shown
    listed = sftp(alice, f"ls -l rooms/{room}").stdout
    size = re.search(r"room +(\d+) .* \S*log\.md", listed)
    assert size and int(size[1]) == len(texts["log.md"])


def test_values_of_a_memory_are_files(alice: Person, room: str, tmp_path: Path) -> None:
    values = {"plan": b"one\r\ntwo", "a/b %2F": "ü\n".encode(), "..": b""}
    for key, value in values.items():
        stored = alice.run(f"mem session set '{key}' --room {room} = ", b"", "-T")
        assert stored.status == 0, stored
        if value:
            alice.run(f"mem session set '{key}' --room {room}", value, "-T")
    got = scp(alice, "-r", f":rooms/{room}/things/memory", str(tmp_path / "got"))
    assert (got.returncode, got.stderr) == (0, "")
    assert read_tree(tmp_path / "got") == {
        "plan": values["plan"],
        "a%2Fb %252F": values["a/b %2F"],
        "%2E%2E": b"",
    }
    missing = sftp(alice, f"-get rooms/{room}/things/memory/none {tmp_path}/x")
    assert "not found" in missing.stderr


@pytest.mark.parametrize(
    "line",
    [
        "put {file} rooms/{room}/things/memory/new",
        "rm rooms/{room}/things/memory/new",
        "put {file} rooms/{room}/log.md",
        "put {file} rooms/{room}/new.md",
        "put {file} rooms/{room}/things/new.md",
        "put {file} rooms/new",
        "put {file} new",
        "rm rooms/{room}/journal.md",
        "rename rooms/{room}/log.md rooms/{room}/workspace/log.md",
        "rename rooms/{room}/workspace/kept rooms/{room}/log.md",
        "rename rooms/{room}/workspace/kept rooms/lobby/workspace/kept",
        "rmdir rooms/{room}",
        "rmdir rooms/{room}/workspace",
        "mkdir rooms/new",
        "chmod 600 rooms/{room}/log.md",
        "ln -s /etc/passwd rooms/{room}/workspace/passwd",
        "ln rooms/{room}/workspace/kept rooms/{room}/workspace/other",
        "chown 0 rooms/{room}/workspace/kept",
        "put {file} rooms/{room}/workspace/a/b/c",
        "put {file} rooms/{room}/workspace/kept/c",
        "mkdir rooms/{room}/workspace/kept",
        "rmdir rooms/{room}/workspace/full",
        "rename rooms/{room}/workspace/full rooms/{room}/workspace/full/in",
        "get ../../../etc/passwd {file}",
        "get rooms/{room}/../../../etc/passwd {file}",
        "get /etc/passwd {file}",
        "get rooms/{room}/workspace/../../../rooms/{room}/things/none.md {file}",
    ],
)
def test_what_is_no_file_of_a_workspace_cannot_be_changed(
    alice: Person, room: str, tmp_path: Path, line: str
) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    top = f"rooms/{room}/workspace"
    made = sftp(alice, f"put {file} {top}/kept", f"mkdir {top}/full", f"put {file} {top}/full/x")
    assert made.returncode == 0, made
    before = versions(alice, room)
    done = sftp(alice, line.format(file=file, room=room))
    assert done.returncode == 1, done
    assert versions(alice, room) == before
    assert file.read_text() == "x"


def test_refusal_says_why_on_standard_error(alice: Person, room: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    done = sftp(alice, f'put {tmp_path}/x "rooms/{room}/workspace/a\u200bb"')
    assert done.returncode == 1
    assert "must not contain U+200B" in done.stderr
    done = sftp(alice, f"put {tmp_path}/x rooms/{room}/log.md")
    assert "Only the files in workspace/ can be changed." in done.stderr
    assert "Permission denied" in done.stderr


def test_work_of_sftp_makes_the_files_it_says(alice: Person, room: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("bb")
    top = f"rooms/{room}/workspace"
    done = sftp(
        alice,
        f"cd {top}",
        f"put {tmp_path}/a one",
        f"put {tmp_path}/b two",
        "rename one two",  # in place of it
        "mkdir docs",
        "mkdir docs/in",
        "rename two docs/in/three",
        "rename docs papers",
        "chmod 755 papers/in/three",
        f"get papers/in/three {tmp_path}/three",
        f"put {tmp_path}/a gone",
        "rm gone",
        "mkdir hollow",
        "rmdir hollow",
        "ls -l papers/in",
        "df",
        "df /",
    )
    assert done.returncode == 0, done
    assert "ERR" not in done.stdout
    assert (tmp_path / "three").read_text() == "a"
    assert "-rwxr-xr-x" in done.stdout
    assert names(alice, room) == ["papers/in/three"]
    assert len(versions(alice, room)) == 1
    assert alice.run(f"file get papers/in/three --room {room}").raw == b"a"


def test_rights_are_those_of_file_put(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve()
    ann, guest = server.person("ann"), server.person("gast", role="guest")
    (tmp_path / "x").write_bytes(b"x" * 100)
    put = f"put {tmp_path}/x rooms/lobby/workspace/x"
    refused = sftp(guest, put)
    assert refused.returncode == 1
    assert "create right" in refused.stderr and "Permission denied" in refused.stderr
    assert not (server.data_dir / "blobs").exists()
    assert sftp(ann, put).returncode == 0
    got = sftp(guest, f"get rooms/lobby/workspace/x {tmp_path}/y")
    assert got.returncode == 0 and (tmp_path / "y").read_bytes() == b"x" * 100
    muted = server.owner.run("mute ann")
    assert muted.status == 0, muted
    refused = sftp(ann, f"put {tmp_path}/x rooms/lobby/workspace/z")
    assert refused.returncode == 1 and "You are muted in lobby" in refused.stderr
    rows = server.owner.json("audit --verb sftp")["rows"]
    assert [(row["door"], row["agent"]) for row in rows] == [("sftp", "ann")]
    assert "changed x by sftp" in rows[0]["request"]


def test_refusal_of_other_programs_says_what_works(alice: Person, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    old = scp(alice, "-O", str(tmp_path / "x"), ":x")
    assert old.returncode != 0
    assert "scp works here without -O" in old.stderr
    for command, said in (
        ("rsync --server -vlogDtpre.iLsfxC . x", "through sshfs"),
        ("scp -t x", "without -O"),
        ("scp -r -f x", "without -O"),
        ("/usr/lib/openssh/sftp-server", "sftp HOST, without -s"),
    ):
        done = alice.run(command, b"", "-T")
        assert done.status == 1
        assert said in done.err and len(done.err.splitlines()) == 1
