"""The files of rooms in a backup: their way into it, and back."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from sshwarma.settings import BLOBS_DIRECTORY
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.world.migrate import DamagedDatabaseError

BLOB_PREFIX: Final = f"{BLOBS_DIRECTORY}/"
"""Beginning of the name of a content in a backup; the rest is its hash."""


def measure_blobs(data_dir: Path) -> int:
    """Return the bytes of all contents in a data directory."""
    blobs = BlobStore(data_dir / BLOBS_DIRECTORY)
    return sum(size for _, size, _ in blobs.list_stored())


class _HashedReader:
    """A file that is hashed while it is read; `check` is called for each part."""

    def __init__(self, file: IO[bytes], check: Callable[[], None]) -> None:
        self._file = file
        self._check = check
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        self._check()
        part = self._file.read(size)
        self.digest.update(part)
        return part


def add_blobs(
    tar: tarfile.TarFile, database: Path, hashes: dict[str, int], check: Callable[[], None]
) -> None:
    """Add the contents that a database names to its backup.

    Args:
        tar: the backup.
        database: of the world; the contents are beside it.
        hashes: the hashes of the contents, with their sizes.
        check: called again and again; what it raises ends the backup.

    Raises:
        DamagedDatabaseError: if one is missing, or is not what its hash says: the backup would take
            the place of one that has it.
    """
    blobs = BlobStore(database.parent / BLOBS_DIRECTORY)
    for sha256, size in sorted(hashes.items()):
        try:
            with blobs.path_of(sha256).open("rb") as file:
                entry = tar.gettarinfo(arcname=f"{BLOB_PREFIX}{sha256}", fileobj=file)
                reader: Any = _HashedReader(file, check)
                if entry.size != size:
                    raise ValueError("its size is wrong")
                tar.addfile(entry, reader)
            if reader.digest.hexdigest() != sha256:
                raise ValueError("its hash is wrong")
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                raise
            raise DamagedDatabaseError(
                f"{blobs.path_of(sha256)}, the content of a file, is missing or damaged. Copy it"
                " from a backup, or from the disk where it was. The database is not damaged."
            ) from error


def adopt_blobs(unpacked: Path, data_dir: Path) -> None:
    """Move the contents of an unpacked backup into a data directory, onto its disk.

    Those that are there already stay: a name says what is in it.
    """
    blobs = BlobStore(data_dir / BLOBS_DIRECTORY)
    if not unpacked.is_dir():
        return
    blobs.directory.mkdir(mode=0o700, exist_ok=True)
    for file in sorted(unpacked.iterdir()):
        blobs.adopt(file, file.name)
    blobs.sync()


def count_missing_blobs(sizes: Mapping[str, int], *directories: Path) -> int:
    """Return how many contents are in none of some directories, or have another size.

    Args:
        sizes: their sizes by hash.
        directories: data directories, or those of unpacked backups.
    """
    return sum(
        not any(
            _has_size(path, size)
            for directory in directories
            for path in (
                directory / BLOBS_DIRECTORY / sha256[:2] / sha256,
                directory / BLOBS_DIRECTORY / sha256,
            )
        )
        for sha256, size in sizes.items()
    )


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size
