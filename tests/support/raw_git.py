"""A client of git that sends what a test wants: packs made by hand, broken lines."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import zlib
from collections.abc import Iterable

from support.driver import Person
from support.driver.person import CLEAN, SECONDS

COMMIT, TREE, BLOB, OFS_DELTA, REF_DELTA = 1, 2, 3, 6, 7


def line(data: bytes) -> bytes:
    """A line of the protocol."""
    return b"%04x%b" % (len(data) + 4, data)


def command(old: str, new: str, ref: str = "refs/heads/main") -> bytes:
    """What a client says before its pack."""
    text = f"{old} {new} {ref}\0 report-status side-band-64k agent=test"
    return line(text.encode()) + b"0000"


def number(size: int) -> bytes:
    """A size in a delta."""
    out = bytearray()
    while size > 0x7F:
        out.append(0x80 | size & 0x7F)
        size >>= 7
    out.append(size)
    return bytes(out)


def packed(kind: int, data: bytes, base: bytes = b"", size: int | None = None) -> bytes:
    """An object of a pack; `size` is what its head says."""
    left = len(data) if size is None else size
    head = bytearray([kind << 4 | left & 0x0F])
    left >>= 4
    while left:
        head[-1] |= 0x80
        head.append(left & 0x7F)
        left >>= 7
    return bytes(head) + base + zlib.compress(data, 9)


def pack(objects: Iterable[bytes], count: int | None = None) -> bytes:
    """A pack of objects; `count` is what its head says."""
    found = list(objects)
    body = b"PACK" + struct.pack(">II", 2, len(found) if count is None else count) + b"".join(found)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def object_id(kind: bytes, data: bytes) -> bytes:
    """The id of an object, 20 bytes."""
    return hashlib.sha1(b"%b %d\0" % (kind, len(data)) + data, usedforsecurity=False).digest()


def commit_of(tree: bytes, *parents: str) -> tuple[bytes, str]:
    """A commit of a tree, and its id."""
    above = "".join(f"parent {parent}\n" for parent in parents)
    who = "Eve <eve@example.org> 1700000000 +0000"
    text = f"tree {tree.hex()}\n{above}author {who}\ncommitter {who}\n\nx\n".encode()
    return text, object_id(b"commit", text).hex()


def tree_of(*entries: tuple[str, str, bytes]) -> tuple[bytes, bytes]:
    """A tree of modes, names and ids, and its id."""
    data = b"".join(f"{mode} {name}".encode() + b"\0" + id for mode, name, id in entries)
    return data, object_id(b"tree", data)


def send(person: Person, room: str, data: bytes, program: str = "git-receive-pack") -> bytes:
    """Send bytes to a program of git; returns all that it said."""
    done = subprocess.run(
        [*person.ssh("-T"), f"{program} '/{room}'"],
        input=data,
        capture_output=True,
        timeout=2 * SECONDS,
        env=CLEAN,
        check=False,
    )
    return done.stdout + done.stderr


def hold(person: Person, room: str) -> subprocess.Popen[bytes]:
    """Begin a clone, and send nothing after the answer."""
    process = subprocess.Popen(
        [*person.ssh("-T"), f"git-upload-pack '/{room}'"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=CLEAN,
    )
    assert process.stdout
    process.stdout.read(4)  # it is answered
    return process
