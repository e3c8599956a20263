"""Files of a room over stock ssh: any bytes, at a terminal, after kill -9."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable

import pytest

from support.driver import Person, Server
from support.driver.covers import covers


def list_files(person: Person, room: str) -> dict[str, int]:
    listed = person.json(f"files --room {room}")
    return {item["path"]: item["size"] for item in listed["files"]}


@covers("files")
@covers("file put")
@covers("file get")
def test_any_bytes_come_back_as_they_went(alice: Person, room: str) -> None:
    for name, content in (
        ("empty", b""),
        ("text.md", "grüße\r\nzwei\n".encode()),
        ("zeros", bytes(3)),
        ("a/b/large.bin", os.urandom(5_000_000)),
    ):
        stored = alice.run(f"file put {name} --room {room}", content, "-T")
        assert stored.status == 0, stored
        got = alice.run(f"file get {name} --room {room}", b"", "-T")
        assert (got.status, got.raw) == (0, content)
        item = next(
            item
            for item in alice.json(f"files {name} --room {room}")["files"]
            if item["path"] == name
        )
        assert item["sha256"] == hashlib.sha256(content).hexdigest()
    assert set(list_files(alice, room)) == {"empty", "text.md", "zeros", "a/b/large.bin"}


@covers("file show")
@covers("file replace")
@covers("file patch")
@covers("file search")
@covers("file mv")
@covers("file rm")
@covers("file mkdir")
@covers("file history")
@covers("file version")
@covers("file diff")
@covers("file restore")
def test_versions_are_listed_compared_and_brought_back(alice: Person, room: str) -> None:
    at = f"--room {room}"
    alice.run(f"file put src/main.py {at}", b"print('hi')\n")
    alice.does(f"file replace src/main.py hi ho {at}")
    assert "print('ho')" in alice.does(f"file show src/main.py {at}")
    assert "print('ho')" in alice.does(f"file search ho src {at}")
    patch = "*** Begin Patch\n*** Add File: a\n+a\n*** End Patch\n"
    assert alice.run(f"file patch {at}", patch, "-T").out.startswith("Added a.")
    alice.does(f"file rm a {at}")
    changed = alice.does(f"file diff src/main.py {at}")
    assert "-print('hi')" in changed and "+print('ho')" in changed
    alice.does(f"file mkdir docs {at}", f"file mv src docs {at}", f"file rm docs {at}")
    assert list_files(alice, room) == {}
    versions = alice.json(f"file history {at}")["versions"]
    assert versions[-1]["source"] == "user_upload"
    assert {version["source"] for version in versions[:-1]} == {"edit"}
    first, second = (version["id"] for version in versions[:-3:-1])
    shown = alice.json(f"file version {second[-6:]} {at}")
    assert (shown["version"]["id"], shown["parent_id"]) == (second, first)
    assert shown["files"] == {"src/main.py": hashlib.sha256(b"print('ho')\n").hexdigest()}
    assert f"from {first[-6:]}" in alice.does(f"file version {second[-6:]} {at}")
    alice.does(f"file restore {first[-6:]} {at}")
    assert alice.run(f"file get src/main.py {at}").raw == b"print('hi')\n"


@pytest.mark.parametrize(
    ("content", "lost"),
    [(b"all:\n\techo hi\n\nclean:\n\trm -f x\n", ""), (b"a\r\nb\r\n", "line ends of Windows"),
     (b"a\x0cb\n", "control characters"), ("\u2409\n\tx\n".encode(), "tabs")],
)  # fmt: skip
def test_edit_keeps_what_nobody_has_changed(
    alice: Person, room: str, content: bytes, lost: str
) -> None:
    alice.run(f"file put Makefile --room {room}", content, "-T")
    screen = alice.sit(room=room)
    screen.enter("/file edit Makefile")
    if lost:
        screen.wait_for(f"has {lost}, which the line editor cannot keep")
    else:
        screen.wait_for("Enter stores it")
        screen.press("end")
        screen.type(" y")
        screen.press("enter")
        screen.wait_for("Changed Makefile")
        content = content.removesuffix(b"\n") + b" y\n"
    screen.close()
    assert alice.run(f"file get Makefile --room {room}", b"", "-T").raw == content


@covers("file edit")
def test_file_is_edited_at_the_prompt_and_seen_by_another(
    alice: Person, bob: Person, room: str
) -> None:
    screen, other = alice.sit(), bob.sit()
    for one in (screen, other):
        one.enter(f"/join {room}")
        one.wait_for_prompt(room)
    screen.enter("/file put plan.md = walls")
    other.wait_for(f"{alice.name} made plan.md")
    screen.enter("/file edit plan.md")
    screen.wait_for("Editing plan.md")
    screen.enter(" and roof")
    other.wait_for(f"{alice.name} changed plan.md")
    other.enter("/file show plan.md")
    other.wait_for("walls and roof")
    other.enter("/files")
    other.wait_for("plan.md  15 B")


def test_file_over_the_limit_is_refused_and_leaves_nothing(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    ann = server.person("ann")
    done = ann.run("file put big", bytes(257 * 1024 * 1024), "-T")
    assert done.status == 2
    assert "A file may have at most 268,435,456 bytes (it is larger)." in done.err
    assert list_files(ann, "lobby") == {}
    assert [file for file in (server.data_dir / "blobs").rglob("*") if file.is_file()] == []


@pytest.mark.parametrize(
    ("command", "piped", "refusal"),
    [
        ("file put my notes.txt", b"data", "'notes.txt' is neither a path nor a text."),
        ("file put a.txt word", b"", "quote a path with blanks twice"),
        ("file put a --encoded", b"aGk=", "encoded: must not be given with piped input"),
    ],
)
def test_content_that_is_given_twice_is_refused(
    alice: Person, room: str, command: str, piped: bytes, refusal: str
) -> None:
    done = alice.run(f"{command} --room {room}", piped, "-T")
    assert (done.status, list_files(alice, room)) == (2, {})
    assert refusal in done.err
    assert alice.run(f"file put 'my notes.txt' --room {room}", b"x", "-T").status == 0
    alice.does(f"file put b --room {room} = hello")
    assert alice.run(f"file get b --room {room}").raw == b"hello\n"
    assert set(list_files(alice, room)) == {"my notes.txt", "b"}


@covers("gc files")
def test_contents_of_the_last_hour_are_no_garbage(serve: Callable[..., Server]) -> None:
    server = serve()
    ann = server.person("ann", role="admin")
    ann.run("file put a", b"kept", "-T")
    (server.data_dir / "blobs" / "00").mkdir()
    (server.data_dir / "blobs" / "00" / ("0" * 64)).write_bytes(b"just uploaded")
    assert ann.json("gc files --yes") == {"count": 0, "size": 0, "acted": True}
    os.utime(server.data_dir / "blobs" / "00" / ("0" * 64), (0, 0))
    assert ann.json("gc files") == {"count": 1, "size": 13, "acted": False}
    assert ann.json("gc files --yes") == {"count": 1, "size": 13, "acted": True}
    assert ann.run("file get a", b"", "-T").raw == b"kept"


def test_input_of_a_guest_is_not_read(alice: Person, serve: Callable[..., Server]) -> None:
    server = serve()
    guest = server.person("gast", role="guest")
    done = guest.run("file put x", bytes(8_000_000), "-T")
    assert done.status == 1
    assert "create right" in done.err
    assert not (server.data_dir / "blobs").exists()


def test_stored_files_survive_kill_9(serve: Callable[..., Server]) -> None:
    """What was answered is there, whole; what was not is there whole or not at all."""
    server = serve(limits__lines_per_10_seconds=1_000_000)
    ann = server.person("ann")
    stored: dict[str, bytes] = {}
    for number in range(3):
        for part in range(4):
            content = os.urandom(100_000 + part)
            name = f"round{number}/file{part}"
            assert ann.run(f"file put {name}", content, "-T").status == 0
            stored[name] = content
        pipe = subprocess.Popen(
            [*ann.ssh("-T"), "file put late/never"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert pipe.stdin
        pipe.stdin.write(os.urandom(300_000))
        pipe.stdin.flush()
        server.kill()
        with contextlib.suppress(BrokenPipeError):
            pipe.stdin.close()
        pipe.wait(60)
        server.start()
        for name, content in stored.items():
            assert ann.run(f"file get {name}", b"", "-T").raw == content
        assert set(list_files(ann, "lobby")) == set(stored)
        assert not list((server.data_dir / "blobs" / "tmp").iterdir())
    _check_blobs(server)


def _check_blobs(server: Server) -> None:
    """Every blob that the database names is there, with the content of its hash."""
    named = {
        sha256
        for (files,) in server.query("SELECT files FROM workspace_manifests")
        for sha256 in json.loads(files).values()
    }
    assert named
    for sha256 in named:
        content = (server.data_dir / "blobs" / sha256[:2] / sha256).read_bytes()
        assert hashlib.sha256(content).hexdigest() == sha256


def test_list_says_who_changed_each_file(alice: Person, bob: Person, room: str) -> None:
    first = alice.json(f"file put a.txt --room {room}", "one")["version"]
    alice.json(f"file put b.txt --room {room}", "two")
    bob.json(f"file put a.txt --room {room}", "three")
    listed = alice.json(f"files --who --room {room}")["files"]
    assert [(one["path"], one["by"]) for one in listed] == [
        ("a.txt", bob.name),
        ("b.txt", alice.name),
    ]
    assert all(re.match(r"20\d\d-", one["at"]) for one in listed)
    shown = alice.json(f"files --n 1 --room {room}")
    assert (len(shown["files"]), shown["count"], shown["files"][0]["by"]) == (1, 2, "")
    before = alice.json(f"file history --before {first} --room {room}")["versions"]
    assert before == []
    second = alice.json(f"file history --room {room} --n 1")["versions"][0]["id"]
    before = alice.json(f"file history --before {second} --room {room}")["versions"]
    assert [one["paths"] for one in before] == [["b.txt"], ["a.txt"]]


def test_two_files_are_compared_and_one_takes_the_place_of_the_other(
    alice: Person, room: str
) -> None:
    alice.json(f"file put a.txt --room {room}", "one\n")
    alice.json(f"file put b.txt --room {room}", "two\n")
    (item,) = alice.json(f"file diff a.txt --other b.txt --room {room}")["files"]
    assert "-one" in item["diff"] and "+two" in item["diff"]
    drawn = alice.run(f"file diff a.txt --other b.txt --room {room}").out
    version = alice.json(f"files --room {room}")["version"][-6:]
    assert f"Two files differ (both of version {version})\na.txt → b.txt\n" in drawn
    alice.json(f"file put c.txt --room {room}", "one\n")
    same = alice.run(f"file diff a.txt --other c.txt --room {room}").out
    assert "Nothing differs (both of version " in same
    alice.does(f"file rm c.txt --room {room}")
    assert alice.run(f"file diff --other b.txt --room {room}").status != 0
    assert "already exists" in alice.run(f"file mv b.txt a.txt --room {room}").err
    alice.does(f"file mv b.txt a.txt --over --room {room}")
    assert alice.run(f"file get a.txt --room {room}").raw == b"two\n"
    assert alice.json(f"files --room {room}")["count"] == 1
