"""The receiving side of git's protocol: one branch, forward only, all or nothing.

Pushed objects go to a repository of their own, in the directory of the session: nothing of a push
that is refused reaches that of the room.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.object_store import DiskObjectStore
from dulwich.objects import ObjectID
from dulwich.pack import PackStreamCopier
from dulwich.protocol import Protocol

from sshwarma.common.units import KIB
from sshwarma.git.known_versions import read_known_versions
from sshwarma.git.packs import (
    MALFORMED,
    TOO_LARGE,
    MalformedPackError,
    adopt_pack,
    list_entries,
    scan_pack,
)
from sshwarma.git.pkt_line import BRANCH, FLUSH, SIDE_BAND, encode_line, encode_report
from sshwarma.git.push_check import PushCheck, PushedFile, PushLimits, PushRefusedError

NO_OBJECT: Final = b"0" * 40
"""The id that stands for no commit: of a branch that is made, or deleted."""

CAPABILITIES: Final = b"report-status side-band-64k ofs-delta no-thin quiet agent=sshwarma"

MAX_COMMANDS: Final = 100
"""Lines in which a client says what it pushes; one is enough."""

DRAIN_FACTOR: Final = 4
"""How many times the limit of a push is read, so that a client that sends too much sees why."""


@dataclass(frozen=True, slots=True)
class ReceiveRequest:
    """A push that may come.

    Attributes:
        repository: that of the room.
        work: a directory on the same disk for what comes.
        head: the present commit.
        limits: what the server allows: `push_bytes`, `push_objects`, `files`, ...
    """

    repository: Path
    work: Path
    head: ObjectID | None
    limits: Mapping[str, Any]


class _CountedInput:
    """What a client sends, up to a limit."""

    def __init__(self, request: ReceiveRequest, read: Callable[[int], bytes]) -> None:
        self._limit: int = request.limits["push_bytes"]
        self._read = read
        self.count = 0

    def read_some(self, size: int) -> bytes:
        """Return some bytes.

        Raises:
            PushRefusedError: if they are too many.
        """
        data = self._read(size)
        self.count += len(data)
        if self.count > self._limit:
            raise PushRefusedError(f"a push has at most {self._limit:,} bytes; push in parts")
        if not data:
            raise EOFError("the client has hung up")
        return data

    def read(self, size: int) -> bytes:
        """Return that many bytes."""
        data = bytearray()
        while len(data) < size:
            data += self.read_some(size - len(data))
        return bytes(data)

    def drain(self) -> None:
        """Read what else comes, so that the client is ready to see why it is refused."""
        while self.count < DRAIN_FACTOR * self._limit and (data := self._read(64 * KIB)):
            self.count += len(data)


def receive_push(
    request: ReceiveRequest,
    store: DiskObjectStore,
    protocol: Protocol,
    read_some: Callable[[int], bytes],
) -> dict[str, Any] | None:
    """Receive a push; return what the server needs to make a version of it.

    None if nothing was pushed, or it was refused and the client knows why.

    Raises:
        GitProtocolError: if the client breaks the protocol, or hangs up.
    """
    named = BRANCH if request.head is not None else b"capabilities^{}"
    line = b"%b %b\0%b" % (request.head or NO_OBJECT, named, CAPABILITIES)
    protocol.write(encode_line(line) + FLUSH)
    commands, capabilities = _read_commands(protocol)
    if not commands:
        return None
    side_band = SIDE_BAND in capabilities
    counted = _CountedInput(request, read_some)
    try:
        new = _check_commands(commands, request.head)
        files, contents, pack = _receive_pack(request, store, counted, new)
    except PushRefusedError as error:
        for _, _, ref in commands:
            protocol.write(encode_report(ref, str(error), side_band=side_band))
            break
        counted.drain()
        return None
    return {
        "head": new.decode(),
        "pack": pack.name,
        "pack_bytes": pack.stat().st_size,
        "side_band": side_band,
        "changes": [
            [file.path, file.mode, contents.get(file.blob_id) if file.blob_id else None]
            for file in files
        ],
    }


def _read_commands(protocol: Protocol) -> tuple[list[tuple[bytes, bytes, bytes]], Sequence[bytes]]:
    """Return what a client pushes, old id, new id and ref, and its capabilities."""
    commands: list[tuple[bytes, bytes, bytes]] = []
    capabilities: Sequence[bytes] = ()
    while (line := protocol.read_pkt_line()) is not None:
        command, has_capabilities, words = line.partition(b"\0")
        if has_capabilities:
            capabilities = words.split()
        parts = command.rstrip(b"\n").split(b" ", 2)
        if len(parts) == 3 and len(commands) < MAX_COMMANDS:  # else `shallow ID`
            commands.append((parts[0], parts[1], parts[2]))
    return commands, capabilities


def _check_commands(
    commands: Sequence[tuple[bytes, bytes, bytes]], head: ObjectID | None
) -> ObjectID:
    """Return the commit that is pushed.

    Raises:
        PushRefusedError: if something else is asked for than to move the branch forward.
    """
    old, new, ref = commands[0]
    if len(commands) > 1 or ref != BRANCH:
        raise PushRefusedError("a room has one branch, main: git push origin HEAD:main")
    if new == NO_OBJECT:
        raise PushRefusedError("the branch of a room cannot be deleted")
    if old != (head or NO_OBJECT):
        raise PushRefusedError("fetch first")
    return ObjectID(new)


def _receive_pack(
    request: ReceiveRequest, store: DiskObjectStore, counted: _CountedInput, new: ObjectID
) -> tuple[list[PushedFile], dict[ObjectID, list[Any]], Path]:
    """Receive and check the pack; return the changed files, contents and the pack.

    Raises:
        PushRefusedError: if it is not accepted.
    """
    pack = request.work / "received.pack"
    try:
        with pack.open("wb") as file:
            _copy_pack(counted, file, request.limits)
        objects, checksum = scan_pack(pack, request.limits["unpacked_bytes"])
        quarantine = request.work / "quarantine"
        (quarantine / "objects" / "pack").mkdir(parents=True)
        linked = request.work / "linked.pack"
        linked.hardlink_to(pack)
        entries = list_entries(linked, objects)
        adopt_pack(quarantine, request.work, linked, entries, checksum)
        alternates = [str(request.repository / "objects")]
        both = DiskObjectStore(str(quarantine / "objects"), alternates=alternates)
        limits = PushLimits(
            request.limits["files"],
            request.limits["workspace_file_bytes"],
            request.limits["workspace_bytes"],
        )
        made = read_known_versions(request.repository).values()
        check = PushCheck(both, {found.id: found for found in objects}, request.head, limits, made)
        files = check.check(new)
        return files, _write_contents(both, files, request), pack
    except MalformedPackError as error:
        raise PushRefusedError(f"the pack cannot be read: {error}") from error
    except MemoryError:
        raise PushRefusedError("it needs too much memory") from None
    except MALFORMED as error:
        raise PushRefusedError(f"the pack is malformed ({type(error).__name__})") from error


def _copy_pack(counted: _CountedInput, file: IO[bytes], limits: Mapping[str, Any]) -> None:
    """Write the pack to a file as it comes.

    Raises:
        PushRefusedError: if it has too many objects.
        MalformedPackError: if it is too large when it is unpacked.
    """
    max_objects, left = limits["push_objects"], limits["unpacked_bytes"]
    copier = PackStreamCopier(
        DEFAULT_OBJECT_FORMAT.hash_func, counted.read, counted.read_some, file
    )
    for number, unpacked in enumerate(copier.read_objects()):
        left -= unpacked.decomp_len or 0
        if left < 0:
            raise MalformedPackError(TOO_LARGE)
        if number == 0 and len(copier) > max_objects:
            raise PushRefusedError(f"a push has at most {max_objects:,} objects; push in parts")


def _write_contents(
    store: DiskObjectStore, files: Sequence[PushedFile], request: ReceiveRequest
) -> dict[ObjectID, list[Any]]:
    """Write the new contents to files; return their names, hashes and sizes by id.

    Raises:
        PushRefusedError: if they are too large together.
    """
    folder = request.work / "contents"
    folder.mkdir()
    left: int = request.limits["workspace_bytes"]
    written: dict[ObjectID, list[Any]] = {}
    for blob_id in dict.fromkeys(file.blob_id for file in files if file.blob_id is not None):
        data = store[blob_id].as_raw_string()
        left -= len(data)
        if left < 0:
            raise PushRefusedError("the files are too large together")
        name = str(len(written))
        (folder / name).write_bytes(data)
        written[blob_id] = [name, hashlib.sha256(data).hexdigest(), len(data)]
    return written
