"""Packs and lines that no git sends are refused, and change nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from support.driver import Person, Server
from support.metrics import scrape
from support.raw_git import (
    BLOB,
    COMMIT,
    OFS_DELTA,
    REF_DELTA,
    TREE,
    command,
    commit_of,
    hold,
    line,
    number,
    object_id,
    pack,
    packed,
    send,
    tree_of,
)

ZERO = "0" * 40
MIB = 1024 * 1024


def commit_with(blob: bytes, *more: bytes) -> tuple[bytes, str]:
    """A pack of a commit with one file and other objects, and the id of the commit."""
    tree, tree_id = tree_of(("100644", "x", object_id(b"blob", blob)))
    commit, head = commit_of(tree_id)
    return pack([packed(COMMIT, commit), packed(TREE, tree), packed(BLOB, blob), *more]), head


def growing_delta(copies: int) -> tuple[bytes, str]:
    """A pack whose file is a base of 16 MiB of zeros, many times over."""
    base = bytes(16 * MIB)
    body = number(len(base)) + number(len(base) * copies)
    size = 0xFFFFFF
    left = len(base) * copies
    while left > 0:
        part = min(left, size)
        body += b"\xf0" + part.to_bytes(3, "little")
        left -= part
    delta = packed(REF_DELTA, body, object_id(b"blob", base))
    tree, tree_id = tree_of(("100644", "x", b"\1" * 20))
    commit, head = commit_of(tree_id)
    return pack([packed(COMMIT, commit), packed(TREE, tree), packed(BLOB, base), delta]), head


def make_large(kind: str) -> tuple[bytes, str]:
    """A few bytes that become gigabytes, and what they are refused with."""
    head = "a" * 40
    match kind:
        case "delta that grows":
            large, large_head = growing_delta(100)
            return command(ZERO, large_head) + large, "memory"
        case "small packs of zeros":
            zeros = [packed(BLOB, bytes(64 * MIB))] * 33
            return command(ZERO, head) + pack(zeros), "too large together"
        case "many deltas that grow":
            base = bytes(16 * MIB)
            base_id = object_id(b"blob", base)
            grown = number(len(base)) + number(4 * 0xFFFFFF + 4) + b"\xf0\xff\xff\xff" * 4
            deltas = [
                packed(REF_DELTA, grown + b"\x04" + each.to_bytes(4, "big"), base_id)
                for each in range(2000)
            ]
            return command(ZERO, head) + pack([packed(BLOB, base), *deltas]), "too large together"
    raise LookupError(kind)


def make_hostile(kind: str) -> tuple[bytes, str]:
    """What a client sends, and what it is refused with."""
    good, head = commit_with(b"x\n")
    tree, tree_id = tree_of(("100644", "x", object_id(b"blob", b"x\n")))
    commit, _ = commit_of(tree_id)
    match kind:
        case "wrong check sum":
            return command(ZERO, head) + good[:-1] + b"\0", "malformed"
        case "another size":
            liar = pack([packed(BLOB, bytes(1000), size=10)])
            return command(ZERO, head) + liar, "malformed"
        case "more objects than there are":
            return command(ZERO, head) + pack([packed(BLOB, b"x")], count=2), "malformed"
        case "too many objects":
            return command(ZERO, head) + pack([packed(BLOB, b"x")], count=2**31), "at most 100,000"
        case "unknown kind":
            return command(ZERO, head) + pack([packed(5, b"x")]), "malformed"
        case "no pack":
            return command(ZERO, head) + b"GIF89a" + bytes(1000), "malformed"
        case "delta of nothing":
            thin = pack([packed(REF_DELTA, number(1) + number(1) + b"\1x", b"\2" * 20)])
            return command(ZERO, head) + thin, "deltas of objects that are not in it"
        case "delta before the pack":
            early = pack([packed(OFS_DELTA, number(1) + number(1) + b"\1x", b"\x7f")])
            return command(ZERO, head) + early, "malformed"
        case "delta that grows" | "small packs of zeros" | "many deltas that grow":
            return make_large(kind)
        case "file that is missing":
            return command(ZERO, head) + pack([packed(COMMIT, commit), packed(TREE, tree)]), (
                "is missing"
            )
        case "head that is missing":
            return command(ZERO, "a" * 40) + good, "is missing"
        case "head that is a tree":
            return command(ZERO, tree_id.hex()) + good, "is no commit"
        case "tree that is a file":
            wrong, wrong_head = commit_of(object_id(b"blob", b"x\n"))
            objects = [packed(COMMIT, wrong), packed(BLOB, b"x\n")]
            return command(ZERO, wrong_head) + pack(objects), "wrong kind"
        case "commit without an author":
            bare = f"tree {tree_id.hex()}\n\nx\n".encode()
            bare_head = object_id(b"commit", bare).hex()
            objects = [packed(COMMIT, bare), packed(TREE, tree), packed(BLOB, b"x\n")]
            return command(ZERO, bare_head) + pack(objects), "malformed"
        case "head that is no id":
            return command(ZERO, "../../../../etc/passwd") + good, "missing"
        case "odd line":
            return b"zzzz", ""
        case "endless line":
            return b"fff0" + bytes(100), ""
    raise LookupError(kind)


@pytest.mark.parametrize(
    "kind",
    [
        *("wrong check sum", "another size", "more objects than there are", "too many objects"),
        *("unknown kind", "no pack", "delta of nothing", "delta before the pack"),
        *("delta that grows", "small packs of zeros", "many deltas that grow"),
        *("file that is missing", "head that is missing"),
        *("head that is a tree", "tree that is a file", "commit without an author"),
        *("head that is no id", "odd line", "endless line"),
    ],
)
def test_hostile_pack_is_refused_and_leaves_nothing(
    world: Server, alice: Person, room: str, kind: str
) -> None:
    blobs = sorted((world.data_dir / "blobs").rglob("*"))
    sent, said = make_hostile(kind)
    answer = send(alice, room, sent).decode(errors="replace")
    assert said in answer, answer[-2000:]
    assert not said or "ng refs/heads/main" in answer, answer[-2000:]
    assert alice.json(f"file history --room {room}")["versions"] == []
    assert sorted((world.data_dir / "blobs").rglob("*")) == blobs
    assert not list((world.data_dir / "cache" / "git" / "work").glob("*"))
    good, head = commit_with(b"x\n")
    accepted = send(alice, room, command(ZERO, head) + good)
    assert b"ok refs/heads/main" in accepted, accepted


def test_object_that_nobody_may_read_cannot_be_asked_for(alice: Person, room: str) -> None:
    alice.does(f"file put a --room {room} = secret", f"file rm a --room {room}")
    want = line(b"want " + b"1" * 40 + b" side-band-64k thin-pack ofs-delta\n") + b"0000"
    answer = send(alice, room, want + line(b"done\n"), "git-upload-pack")
    assert b"PACK" not in answer


@pytest.mark.soak
def test_more_bytes_than_a_push_may_have_are_not_kept(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    noise = [packed(BLOB, os.urandom(16 * MIB)) for _ in range(17)]
    sent, head = commit_with(b"x\n", *noise)
    answer = send(server.owner, "lobby", command(ZERO, head) + sent)
    assert b"a push has at most 268,435,456 bytes" in answer
    assert sum(file.stat().st_size for file in server.data_dir.rglob("*.pack")) < MIB


def test_one_agent_has_two_sessions_at_once(
    world: Server, alice: Person, bob: Person, room: str
) -> None:
    held = [hold(alice, room) for _ in range(2)]
    try:
        assert scrape(world).value("sshwarma_worker_processes", kind="git") == 2
        answer = send(alice, room, b"0000", "git-upload-pack")
        assert b"ERR You have 2 clones, fetches or pushes in progress" in answer
        other = send(bob, room, b"0000", "git-upload-pack")
        assert b"ERR" not in other
    finally:
        for process in held:
            process.kill()
            process.communicate()


def test_disabled_account_ends_a_session_in_progress(serve: Callable[..., Server]) -> None:
    server = serve()
    ann = server.person("ann")
    server.owner.does("file put a = 1")
    held = hold(ann, "lobby")
    server.operate("agents_disable", name="ann")
    assert held.wait(10) != 0
    held.communicate()
    deadline = time.monotonic() + 10
    while list((server.data_dir / "cache" / "git" / "work").glob("*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_session_is_seen_in_the_room_and_stopped_there(serve: Callable[..., Server]) -> None:
    server = serve()
    ann, bob = server.person("ann"), server.person("bob")
    server.owner.does("file put a = 1")
    held = hold(ann, "lobby")
    (running,) = bob.json("look")["running"]
    assert (running["work"], running["by"]) == ("git fetch", "ann")
    assert "needs the moderate right" in bob.run(f"stop {running['number']}").err
    assert held.poll() is None
    assert "Stopped git fetch of ann." in server.owner.does("stop")
    assert held.wait(10) == 1
    held.communicate()
    assert not bob.json("look")["running"]


def test_server_stops_while_a_client_is_silent(serve: Callable[..., Server]) -> None:
    server = serve()
    server.owner.does("file put a = 1")
    held = hold(server.owner, "lobby")
    assert server.stop() == 0
    held.communicate(timeout=10)
    assert not list((server.data_dir / "cache" / "git" / "work").glob("*"))
