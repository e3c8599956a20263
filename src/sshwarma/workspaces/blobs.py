"""Blobs: contents of files by their SHA-256, as `blobs/<2 hex>/<hash>`.

A blob is complete when it gets its name, and is never changed. It is on the disk after `sync`; only
then may a row name it. A blob that no row names is garbage once it is old enough.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Final

import structlog

from sshwarma.common.units import HOUR_SECONDS, KIB
from sshwarma.world.errors import Unavailable

MIN_GARBAGE_SECONDS: Final = HOUR_SECONDS
"""Age below which a blob is kept that nothing refers to: its row may be on the way."""

log = structlog.get_logger(__name__)

SHA256: Final = re.compile(r"[0-9a-f]{64}")
"""A hash as blobs are named; anything else may be a path."""

_TEMPORARY: Final = "tmp"
_READ_BYTES: Final = 256 * KIB
_libc = ctypes.CDLL(None, use_errno=True)


class DamagedBlob(Unavailable):
    """A blob whose content is missing, or is not that of its hash."""


class BlobStore:
    """The blobs in a directory. Its methods block: call them in a thread."""

    def __init__(self, directory: Path) -> None:
        """Use a directory, which is made with the first blob."""
        self.directory = directory
        # Of one blob, either its use is renewed or it is swept: never both at once.
        self._locks = [threading.Lock() for _ in range(256)]
        self._temporaries: set[Path] = set()  # of uploads in progress, which no sweep deletes
        self._provisional: set[str] = set()
        self.held: Counter[str] = Counter()
        """Blobs that no row names yet, and that must be kept."""

    def path_of(self, sha256: str) -> Path:
        """Return where the blob of a hash is.

        Raises:
            DamagedBlob: if it is no hash, but perhaps a path.
        """
        if not SHA256.fullmatch(sha256):
            raise _damaged_error(sha256, "has an invalid hash")
        return self.directory / sha256[:2] / sha256

    def store(self, data: bytes, *, is_provisional: bool = False) -> str:
        """Store a content; return its hash.

        A provisional one that is new can be deleted by `settle`.
        """
        upload = self.begin_upload()
        try:
            upload.write(data)
            return upload.finish(is_provisional=is_provisional)
        finally:
            upload.close()

    def settle(self, hashes: Iterable[str], *, is_kept: bool) -> None:
        """Keep or delete what was stored provisionally and by nobody else since."""
        for sha256 in hashes:
            with self._lock_of(sha256):
                if sha256 in self._provisional and not is_kept:
                    self.path_of(sha256).unlink(missing_ok=True)
                self._provisional.discard(sha256)

    def begin_upload(self) -> Upload:
        """Return a writer of a content that arrives in parts."""
        return Upload(self, *self.open_temporary())

    def open_temporary(self) -> tuple[Path, FileIO]:
        """Make a file for a content on its way; return its path and the open file.

        It is kept until it is adopted or dropped.
        """
        folder = self.directory / _TEMPORARY
        path = folder / secrets.token_hex(16)
        self._temporaries.add(path)
        try:
            with reporting_errors():
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
                return path, FileIO(path, "x+")
        except Unavailable:
            self._temporaries.discard(path)
            raise

    def hold(self, sha256: str) -> None:
        """Keep a blob that no row names yet; `release` ends it, once for each."""
        self.held[sha256] += 1

    def release(self, sha256: str) -> None:
        """Take back a `hold`."""
        self.held[sha256] -= 1
        if self.held[sha256] <= 0:
            del self.held[sha256]

    def drop_temporary(self, path: Path) -> None:
        """Delete a file of `open_temporary`, unless it was adopted."""
        path.unlink(missing_ok=True)
        self._temporaries.discard(path)

    def read(self, sha256: str) -> bytes:
        """Return the content of a blob.

        Raises:
            DamagedBlob: if it is missing, or is not what its hash says.
        """
        try:
            data = self.path_of(sha256).read_bytes()
        except FileNotFoundError:
            raise _damaged_error(sha256, "is missing") from None
        except OSError as error:
            log.error("a content cannot be read", sha256=sha256, error=str(error))
            raise _damaged_error(sha256, "cannot be read") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise _damaged_error(sha256, "is damaged")
        return data

    def check(self, sha256: str) -> Path:
        """Return where a blob is.

        Raises:
            DamagedBlob: if it is missing, or is not what its hash says.
        """
        if not self._is_whole(sha256):
            raise _damaged_error(sha256, "is damaged or missing")
        return self.path_of(sha256)

    def find_damaged(self, hashes: Collection[str]) -> list[str]:
        """Return those of the hashes whose blob is missing or not what its hash says."""
        return [sha256 for sha256 in hashes if not self._is_whole(sha256)]

    def _is_whole(self, sha256: str) -> bool:
        digest = hashlib.sha256()
        try:
            with self.path_of(sha256).open("rb") as file:
                while part := file.read(_READ_BYTES):
                    digest.update(part)
        except OSError:
            return False
        return digest.hexdigest() == sha256

    def sync(self) -> None:
        """Wait until everything stored so far is on the disk.

        One call for many blobs: syncing each by itself takes ten times as long.
        """
        if not self.directory.exists():
            return
        with reporting_errors(), open_directory(self.directory) as descriptor:
            if not hasattr(_libc, "syncfs"):
                os.sync()
            elif _libc.syncfs(descriptor) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def list_stored(self) -> Iterator[tuple[str, int, float]]:
        """Yield the hash, size and time of use of every blob."""
        for folder in sorted(self.directory.glob("[0-9a-f][0-9a-f]")):
            for file in sorted(folder.iterdir()):
                if not SHA256.fullmatch(file.name):  # of somebody else, such as a network disk
                    continue
                with contextlib.suppress(FileNotFoundError):  # swept in the meantime
                    found = file.stat()
                    yield file.name, found.st_size, found.st_mtime

    def sweep(self, used: Collection[str], min_age_seconds: float = MIN_GARBAGE_SECONDS) -> int:
        """Delete the blobs that are not used; return their bytes.

        Those that were stored lately stay. Unfinished uploads of that age are deleted, too.
        """
        oldest = time.time() - min_age_seconds
        freed = 0
        for sha256, size, _ in list(self.list_stored()):
            if sha256 in used:
                continue
            file = self.path_of(sha256)
            with self._lock_of(sha256), contextlib.suppress(FileNotFoundError):
                if file.stat().st_mtime <= oldest:
                    file.unlink()
                    freed += size
        for leftover in self.directory.glob(f"{_TEMPORARY}/*"):
            with contextlib.suppress(FileNotFoundError):
                if leftover not in self._temporaries and leftover.stat().st_mtime <= oldest:
                    leftover.unlink()
        return freed

    def delete_uploads(self) -> None:
        """Delete the unfinished uploads of a server that ended."""
        for leftover in self.directory.glob(f"{_TEMPORARY}/*"):
            leftover.unlink(missing_ok=True)

    def adopt(self, file: Path, sha256: str, *, is_provisional: bool = False) -> None:
        """Give a complete file the name of its hash, or drop it for the present blob.

        `is_provisional` is that of `store`.
        """
        target = self.path_of(sha256)
        with self._lock_of(sha256):
            if self._is_whole(sha256):  # one that is damaged is replaced
                os.utime(target)  # a sweep that runs now keeps it
                file.unlink()
                self._provisional.discard(sha256)
            else:
                target.parent.mkdir(mode=0o700, exist_ok=True)
                file.rename(target)
                if is_provisional:
                    self._provisional.add(sha256)
        self._temporaries.discard(file)

    def _lock_of(self, sha256: str) -> threading.Lock:
        return self._locks[int(sha256[:2], 16)]


class Upload:
    """A content that arrives in parts; `close` drops it unless it was finished."""

    def __init__(self, blobs: BlobStore, path: Path, file: FileIO) -> None:
        self._blobs = blobs
        self._path = path
        self._file = file
        self._digest = hashlib.sha256()
        self.size = 0
        """Bytes written so far."""

    def write(self, data: bytes) -> None:
        """Add a part."""
        view = memoryview(data)
        with reporting_errors():
            while view:
                view = view[self._file.write(view) :]
        self._digest.update(data)
        self.size += len(data)

    def read(self) -> bytes:
        """Return what was written, without storing it."""
        with reporting_errors():
            return self._path.read_bytes()

    def finish(self, *, is_provisional: bool = False) -> str:
        """Store the content; return its hash.

        `is_provisional` is that of `BlobStore.store`.
        """
        sha256 = self._digest.hexdigest()
        with reporting_errors():
            self._file.close()
            # The hash is of what was given. To read all of it again would take too long.
            if self._path.stat().st_size != self.size:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._blobs.adopt(self._path, sha256, is_provisional=is_provisional)
        return sha256

    def close(self) -> None:
        """Drop the content, unless it is stored."""
        self._file.close()
        self._blobs.drop_temporary(self._path)


@contextlib.contextmanager
def open_directory(directory: Path) -> Iterator[int]:
    """Open a directory; the value is its descriptor."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def reporting_errors() -> Iterator[None]:
    """Make a refusal of an error of the system while a content is stored.

    Raises:
        Unavailable: with the reason.
    """
    try:
        yield
    except OSError as error:
        raise write_error(error) from error


def write_error(error: OSError) -> Unavailable:
    """Log an error of the system while something is written, and return the refusal."""
    log.error("a file could not be stored", error=str(error))
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "Reading still works. Writing works again when there is room."
        return Unavailable("The disk is full. Nothing was stored.", hint=hint)
    problem = os.strerror(error.errno) if error.errno else "an unknown error"
    return Unavailable(f"The file could not be stored: {problem}.")


def _damaged_error(sha256: str, problem: str) -> DamagedBlob:
    return DamagedBlob(
        f"The content {sha256[:12]} {problem} in the data directory.",
        hint="A backup that has it can be restored.",
    )
