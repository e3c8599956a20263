"""The files of rooms in a backup: their way into it, and back."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from sshwarma.admin.damaged_contents import DAMAGE_ERRORS, DamagedContentsError, find_damaged
from sshwarma.admin.world_place import WorldPlace, data_dir_of
from sshwarma.settings import BLOBS_DIRECTORY
from sshwarma.workspaces.blobs import BlobStore

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
    tar: tarfile.TarFile, world: WorldPlace, hashes: dict[str, int], check: Callable[[], None]
) -> None:
    """Add the contents that a world names to its backup.

    Args:
        tar: the backup.
        world: where it is; the contents are in its data directory.
        hashes: the hashes of the contents, with their sizes.
        check: called again and again; what it raises ends the backup.

    Raises:
        DamagedContentsError: if some are missing, or are not what their hash says: the backup would
            take the place of one that has them.
    """
    blobs = BlobStore(data_dir_of(world) / BLOBS_DIRECTORY)
    for sha256, size in sorted(hashes.items()):
        try:
            _add_blob(tar, blobs.path_of(sha256), size, check)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno not in DAMAGE_ERRORS:
                raise
            damaged = find_damaged(blobs, hashes, check)
            if not damaged and isinstance(error, OSError):  # the disk of the backup has failed
                raise
            raise DamagedContentsError(world, damaged or [sha256], len(hashes)) from error


def _add_blob(tar: tarfile.TarFile, path: Path, size: int, check: Callable[[], None]) -> None:
    """Add a content.

    Raises:
        ValueError: if it is damaged.
        OSError: if it is missing, or cannot be read or written.
    """
    with path.open("rb") as file:
        entry = tar.gettarinfo(arcname=f"{BLOB_PREFIX}{path.name}", fileobj=file)
        reader: Any = _HashedReader(file, check)
        if entry.size != size:
            raise ValueError("its size is wrong")
        tar.addfile(entry, reader)
    if reader.digest.hexdigest() != path.name:
        raise ValueError("its hash is wrong")


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


def find_missing_blobs(sizes: Mapping[str, int], *directories: Path) -> list[str]:
    """Return the contents that are in none of some directories, or have another size.

    Args:
        sizes: their sizes by hash.
        directories: data directories, or those of unpacked backups.
    """
    return [
        sha256
        for sha256, size in sizes.items()
        if not any(
            _has_size(path, size)
            for directory in directories
            for path in (
                directory / BLOBS_DIRECTORY / sha256[:2] / sha256,
                directory / BLOBS_DIRECTORY / sha256,
            )
        )
    ]


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size
