"""Reading of a backup, a gzipped tar, which may come from anywhere.

It is read once, from its beginning to its end, and only what `sshwarma backup` writes is
understood: a manifest, a database and the contents of files, with a few extended headers of limited
size. The reader of the standard library follows what an archive says into memory and time without
a limit.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import tarfile
import zlib
from pathlib import Path
from typing import Any, Final

from sshwarma.admin.backup import MANIFEST_NAME, POSTGRES
from sshwarma.admin.backup_files import BLOB_PREFIX
from sshwarma.admin.database_copy import check_room
from sshwarma.admin.postgres_dump import DUMP_MAGIC, DUMP_NAME
from sshwarma.common.reported_error import ReportedError
from sshwarma.common.units import KIB, MIB
from sshwarma.settings import DATABASE_NAME
from sshwarma.workspaces.blobs import SHA256

MAX_MANIFEST_BYTES: Final = 64 * KIB
MAX_HEADER_BYTES: Final = 64 * KIB
"""Bytes of an extended header of the archive; those of a backup have about a hundred."""

MAX_EXTENDED_HEADERS: Final = 4
"""Extended headers before one file; a backup has one at most."""

MAX_PADDING_BYTES: Final = 64 * KIB
"""Bytes after the database: tar fills its last record, of 10 KiB, with zeros."""

MAX_BLOB_BYTES: Final = 1 << 50
"""Bytes of all contents that a manifest may name: no disk has as many."""

READ_BYTES: Final = MIB
"""Bytes of the database that are in memory at a time."""

GZIP_MAGIC: Final = b"\x1f\x8b"
SQLITE_MAGIC: Final = b"SQLite format 3\0"
SQLITE_HEADER_BYTES: Final = 100

_PAX_SIZE: Final = re.compile(rb"^\d+ size=(\d{1,19})$", re.MULTILINE)


class InvalidBackupError(ReportedError):
    """The file is not a backup, is damaged, or is of a newer version."""


def unpack_archive(
    archive: Path, name: str, to: Path, blobs: Path, *, is_dump: bool = False
) -> dict[str, Any]:
    """Write the database of a backup to a new file; return its manifest.

    Args:
        archive: the backup.
        name: what errors call it.
        to: the new file.
        blobs: a new directory for the contents of files, each named by its hash.
        is_dump: whether it must be of a world on PostgreSQL; else it must be of one in a file.

    Raises:
        InvalidBackupError: if it is not a backup, is damaged, or is of the other kind.
        OSError: if the disk has no room for it.
    """
    try:
        with gzip.open(archive) as file:
            manifest = _read_manifest(file)
            _check_kind(manifest, name, is_dump=is_dump)
            size = _read_size(file, DUMP_NAME if is_dump else DATABASE_NAME)
            if size != manifest.get("bytes"):
                raise ValueError("it does not contain the database that its manifest names")
            count, blob_bytes = _read_counts(manifest)
            check_room(to.parent.parent, f"What is in {name}", size + blob_bytes)
            checksum = (_write_dump if is_dump else _write_database)(file, to, size)
            _skip_padding(file, size)
            _write_blobs(file, blobs, count, blob_bytes)
            # Its end has the checksum of all of it, which the reader compares.
            if len(file.read(MAX_PADDING_BYTES + 1)) > MAX_PADDING_BYTES:
                raise ValueError("it goes on after its end")
    except (
        zlib.error, gzip.BadGzipFile, ValueError, RecursionError,
    ) as error:  # fmt: skip
        raise InvalidBackupError(f"{name} is not a readable backup: {error}") from error
    except EOFError as error:
        raise InvalidBackupError(
            f"{name} is not a readable backup: its end is missing. Copy it again from where it was"
            " made."
        ) from error
    if checksum != manifest.get("sha256"):
        raise InvalidBackupError(f"{name} is damaged: the checksum of its database is wrong")
    return manifest


def _read_manifest(file: gzip.GzipFile) -> dict[str, Any]:
    size = _read_size(file, MANIFEST_NAME)
    if size > MAX_MANIFEST_BYTES:
        raise ValueError(f"its manifest has {size} bytes, and the limit is {MAX_MANIFEST_BYTES}")
    manifest = json.loads(_read_padded(file, size))
    if isinstance(manifest, dict):
        return manifest
    raise ValueError("its manifest is not a JSON object")


def _check_kind(manifest: dict[str, Any], name: str, *, is_dump: bool) -> None:
    """Check that a backup is of a world in a file, or on PostgreSQL.

    Raises:
        InvalidBackupError: with the way to restore one of the other kind.
    """
    if (manifest.get("database") == POSTGRES) == is_dump:
        return
    if is_dump:
        raise InvalidBackupError(
            f"{name} is a backup of a world in a file, and the settings name a database on"
            " PostgreSQL. Restore it without that setting (SSHWARMA_DATABASE=), then move it:"
            " sshwarma migrate-to postgresql://USER@HOST/NAME. Nothing was changed."
        )
    raise InvalidBackupError(
        f"{name} is a backup of a world on PostgreSQL, and the settings name no database there."
        " Set database, or SSHWARMA_DATABASE, to the address of an empty one, and restore again."
        " Then sshwarma migrate-to sqlite can move it into a file. Nothing was changed."
    )


def _read_counts(manifest: dict[str, Any]) -> tuple[int, int]:
    """Return how many contents of files a backup has, and their bytes.

    Older backups have none.

    Raises:
        ValueError: if its manifest says something else than numbers.
    """
    counts = manifest.get("blobs", 0), manifest.get("blob_bytes", 0)
    if any(not isinstance(count, int) or not 0 <= count < MAX_BLOB_BYTES for count in counts):
        raise ValueError("its manifest counts its files wrongly")
    return counts


def _skip_padding(file: gzip.GzipFile, size: int) -> None:
    """Skip what fills the last block of a file that was read."""
    file.read(-size % tarfile.BLOCKSIZE)


def _write_blobs(file: gzip.GzipFile, to: Path, count: int, total: int) -> None:
    """Write the contents of files into a new directory, each named by its hash.

    Raises:
        ValueError: if they are not as many bytes, or one is not what its name says.
    """
    if count:
        to.mkdir(mode=0o700)
    for _ in range(count):
        name, size = _read_header(file)
        sha256 = name.removeprefix(BLOB_PREFIX)
        if not name.startswith(BLOB_PREFIX) or not SHA256.fullmatch(sha256):
            raise ValueError("it does not contain a file where a backup does")
        total -= size
        if total < 0:
            raise ValueError("its files have more bytes than its manifest says")
        if (to / sha256).exists():
            raise ValueError("it contains a file twice")
        if _write_content(file, to / sha256, size, b"") != sha256:
            raise ValueError(f"the content {sha256[:12]} of a file is damaged")
        _skip_padding(file, size)


def _read_size(file: gzip.GzipFile, name: str) -> int:
    """Return the size of the next file, which must be a plain one of this name.

    Raises:
        ValueError: if it is something else.
    """
    found, size = _read_header(file)
    if found != name:
        raise ValueError(f"it does not contain {name} where a backup does")
    return size


def _read_header(file: gzip.GzipFile) -> tuple[str, int]:
    """Return the name and size of the next file, which must be a plain one.

    Raises:
        ValueError: if it is something else.
        EOFError: if the archive ends there.
    """
    size: int | None = None
    for _ in range(MAX_EXTENDED_HEADERS + 1):
        block = file.read(tarfile.BLOCKSIZE)
        if len(block) < tarfile.BLOCKSIZE:
            raise EOFError("it ends too early")
        try:
            header = tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
        except tarfile.HeaderError as error:
            raise ValueError("it has something else where a file should begin") from error
        if header.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
            size = header.size if size is None else size
            if size < 0:
                raise ValueError("a file in it has a size below zero")
            return header.name, size
        if not 0 <= header.size <= MAX_HEADER_BYTES:
            raise ValueError(
                f"a header has {header.size} bytes, and the limit is {MAX_HEADER_BYTES}"
            )
        if header.type != tarfile.XHDTYPE:
            raise ValueError("it contains something else than plain files")
        found = _PAX_SIZE.search(_read_padded(file, header.size))
        size = int(found[1]) if found else size  # a size of 8 GiB and more stands here alone
    raise ValueError(f"it has more than {MAX_EXTENDED_HEADERS} extended headers")


def _read_padded(file: gzip.GzipFile, size: int) -> bytes:
    """Read some bytes, and what fills their last block."""
    blocks = -(-size // tarfile.BLOCKSIZE)
    content = file.read(blocks * tarfile.BLOCKSIZE)
    if len(content) < size:
        raise EOFError("it ends too early")
    return content[:size]


def _write_database(file: gzip.GzipFile, to: Path, size: int) -> str:
    """Write the database, if its header names its size; return its SHA-256.

    Raises:
        ValueError: if it does not begin as a database of that size does.
        EOFError: if the archive ends within it.
    """
    content = file.read(min(size, SQLITE_HEADER_BYTES))
    page = int.from_bytes(content[16:18], "big")
    pages = int.from_bytes(content[28:32], "big")
    if not content.startswith(SQLITE_MAGIC) or (65536 if page == 1 else page) * pages != size:
        raise ValueError("what it contains is no database")
    return _write_content(file, to, size, content)


def _write_dump(file: gzip.GzipFile, to: Path, size: int) -> str:
    """Write the dump of a database, if it begins as one; return its SHA-256.

    Raises:
        ValueError: if it does not.
        EOFError: if the archive ends within it.
    """
    content = file.read(min(size, SQLITE_HEADER_BYTES))
    if not content.startswith(DUMP_MAGIC):
        raise ValueError("what it contains is no dump of PostgreSQL")
    return _write_content(file, to, size, content)


def _write_content(file: gzip.GzipFile, to: Path, size: int, content: bytes) -> str:
    """Write a file of the archive, whose beginning was read; return its SHA-256.

    Raises:
        EOFError: if the archive ends within it.
    """
    checksum, left = hashlib.sha256(), size
    content = content or file.read(min(left, READ_BYTES))
    with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        while content:
            checksum.update(content)
            target.write(content)
            left -= len(content)
            content = file.read(min(left, READ_BYTES))
    if left:
        raise EOFError("it ends too early")
    return checksum.hexdigest()
