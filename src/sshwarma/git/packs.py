"""Packs: files with many objects of a repository, written in streams and indexed."""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from dulwich.errors import ApplyDeltaError, ChecksumMismatch, FileFormatException
from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.objects import Blob, ObjectID, RawObjectID, ShaFile, sha_to_hex
from dulwich.pack import (
    PackData,
    UnpackedObject,
    UnpackedObjectIterator,
    UnresolvedDeltas,
    full_unpacked_object,
    write_pack_data,
    write_pack_index_v2,
)

from sshwarma.common.units import KIB, MIB

COMPRESSION: Final = 1
"""zlib's level in the cache: objects are compressed again for a client."""

MAX_BATCH_BYTES: Final = 32 * MIB
"""Bytes of trees and commits that wait in memory for a pack."""

_READ_BYTES: Final = 256 * KIB


class DamagedContentError(Exception):
    """A content is missing, or is not what its hash says. Its message is its hash."""


@dataclass(frozen=True, slots=True)
class _StoredBlob:
    """A content that is an object: where it is, and both of its hashes."""

    path: Path
    sha256: str


class PackBatch:
    """Objects on their way into the packs of a repository."""

    def __init__(self, repository: Path, work: Path, is_known: Callable[[ObjectID], bool]) -> None:
        """Gather objects.

        Args:
            repository: gets the packs.
            work: a directory on the same disk for unfinished packs.
            is_known: whether the repository has an object; such ones are left out.
        """
        self._repository = repository
        self._work = work
        self._is_known = is_known
        self._waiting: dict[ObjectID, ShaFile | _StoredBlob] = {}
        self._bytes = 0

    def add(self, made: ShaFile) -> None:
        """Add an object."""
        if made.id not in self._waiting and not self._is_known(made.id):
            self._waiting[made.id] = made
            self._bytes += made.raw_length()

    def add_blob(self, path: Path, sha256: str) -> ObjectID:
        """Add a content of the store; return its id.

        Raises:
            DamagedContentError: if it is missing, or is not what its hash says.
        """
        digest, checked = hashlib.sha1(usedforsecurity=False), hashlib.sha256()
        try:
            with path.open("rb") as file:
                digest.update(b"blob %d\0" % path.stat().st_size)
                while part := file.read(_READ_BYTES):
                    digest.update(part)
                    checked.update(part)
        except FileNotFoundError:
            raise DamagedContentError(sha256) from None
        if checked.hexdigest() != sha256:
            raise DamagedContentError(sha256)
        blob_id = ObjectID(digest.hexdigest().encode())
        if blob_id not in self._waiting and not self._is_known(blob_id):
            self._waiting[blob_id] = _StoredBlob(path, sha256)
        return blob_id

    def flush_if_large(self) -> None:
        """Write a pack, if much waits."""
        if self._bytes > MAX_BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits into a pack."""
        if self._waiting:
            write_pack(self._repository, self._work, self._read_waiting(), len(self._waiting))
            self._waiting.clear()
            self._bytes = 0

    def _read_waiting(self) -> Iterator[UnpackedObject]:
        for made in self._waiting.values():
            if isinstance(made, _StoredBlob):
                yield full_unpacked_object(Blob.from_string(made.path.read_bytes()))
            else:
                yield full_unpacked_object(made)


def write_pack(repository: Path, work: Path, objects: Iterator[UnpackedObject], count: int) -> None:
    """Write a pack with its index, which gets its name last."""
    unfinished = work / "unfinished.pack"
    with unfinished.open("wb") as file:
        entries, checksum = write_pack_data(
            file.write,
            objects,
            DEFAULT_OBJECT_FORMAT,
            num_records=count,
            compression_level=COMPRESSION,
        )
    listed = [(RawObjectID(name), *place) for name, place in entries.items()]
    adopt_pack(repository, work, unfinished, listed, checksum)


def adopt_pack(
    repository: Path,
    work: Path,
    pack: Path,
    entries: Iterable[tuple[bytes, int, int]],
    checksum: bytes,
) -> None:
    """Give a pack of the same disk its place in a repository.

    Args:
        repository: gets it.
        work: a directory on the same disk for the unfinished index.
        pack: the file, which is moved.
        entries: the id of each object, where it is, and its check sum.
        checksum: the last bytes of the pack.
    """
    folder = repository / "objects" / "pack"
    index = work / "unfinished.idx"
    with index.open("wb") as file:
        write_pack_index_v2(file, sorted(entries), checksum)
    name = f"pack-{checksum.hex()}"
    pack.replace(folder / f"{name}.pack")
    index.replace(folder / f"{name}.idx")


@dataclass(frozen=True, slots=True)
class PackedObject:
    """An object of a pack: its id, kind and size, and where it is."""

    id: ObjectID
    type_number: int
    size: int
    offset: int


class MalformedPackError(Exception):
    """What should be a pack cannot be read as one. Its message is a clause."""


TOO_LARGE: Final = "its objects are too large together when they are unpacked"

MALFORMED: Final = (
    *(AssertionError, EOFError, KeyError, OverflowError, TypeError, ValueError),
    *(struct.error, zlib.error, UnresolvedDeltas, ApplyDeltaError, ChecksumMismatch),
    *(FileFormatException,),
)
"""What dulwich raises for bytes that are no pack, or no object."""


def scan_pack(pack: Path, max_bytes: float = math.inf) -> tuple[list[PackedObject], bytes]:
    """Return the objects of a pack, and its check sum.

    Args:
        pack: the file.
        max_bytes: what its objects may have together.

    Raises:
        MalformedPackError: if it is malformed, needs objects that it does not have, or is too large
            when it is unpacked.
    """
    found: list[PackedObject] = []
    try:
        with PackData(str(pack), object_format=DEFAULT_OBJECT_FORMAT) as data:
            for item in UnpackedObjectIterator.for_pack_data(data):
                found.append(_describe(item))
                max_bytes -= found[-1].size
                if max_bytes < 0:
                    raise MalformedPackError(TOO_LARGE)
            checksum = data.get_stored_checksum()
    except UnresolvedDeltas:
        raise MalformedPackError("it has deltas of objects that are not in it") from None
    except MALFORMED as error:
        raise MalformedPackError(f"it is malformed ({type(error).__name__})") from error
    return found, checksum


def list_entries(pack: Path, objects: Iterable[PackedObject]) -> list[tuple[bytes, int, int]]:
    """Return the lines of a pack's index: id, offset and check sum of each object."""
    by_offset = {found.offset: found.id for found in objects}
    starts = sorted(by_offset)
    size = pack.stat().st_size - DEFAULT_OBJECT_FORMAT.oid_length
    with pack.open("rb") as file:
        entries = []
        for start, end in pairwise([*starts, size]):
            file.seek(start)
            name = bytes.fromhex(by_offset[start].decode())
            entries.append((name, start, zlib.crc32(file.read(end - start))))
        return entries


def _describe(unpacked: UnpackedObject) -> PackedObject:
    return PackedObject(
        sha_to_hex(RawObjectID(unpacked.sha())),
        unpacked.obj_type_num or 0,
        sum(map(len, unpacked.obj_chunks or [])),
        unpacked.offset or 0,
    )
