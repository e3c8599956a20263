"""Scratch files: contents that are written anywhere before they are stored.

A small one is in memory, a larger one in a temporary file beside the blobs. Nothing else sees it
until `finish` makes it a blob.
"""

from __future__ import annotations

import hashlib
import os
import threading
from io import FileIO
from pathlib import Path
from typing import Final

import structlog

from sshwarma.common.limits import MAX_SCRATCH_MEMORY_BYTES
from sshwarma.common.units import KIB, MIB
from sshwarma.workspaces.blobs import BlobStore, reporting_errors

log = structlog.get_logger(__name__)

_COPY_BYTES: Final = 256 * KIB
_FLUSH_BYTES: Final = 8 * MIB


def _flush(descriptor: int) -> None:
    """Write a file to the disk and close it; `BlobStore.sync` reports errors."""
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        log.warning("a file could not be written to the disk", error=str(error))
    finally:
        os.close(descriptor)


class ScratchFile:
    """A content that is being written. Its methods block, most of them briefly.

    Raises:
        Unavailable: from what writes, if the disk is full or fails.
    """

    def __init__(self, blobs: BlobStore) -> None:
        """Begin with an empty content."""
        self._blobs = blobs
        self._memory = bytearray()
        self._path: Path | None = None
        self._file: FileIO | None = None
        self._size = 0
        self._digest = hashlib.sha256()
        self._flushed = 0
        self._flushing: threading.Thread | None = None
        self._digested = 0  # bytes from the start that are in the digest

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._size

    def read(self, offset: int, size: int) -> bytes:
        """Return what is at an offset: fewer bytes at the end, none behind it."""
        if self._file is None:
            return bytes(self._memory[offset : offset + size])
        with reporting_errors():
            return os.pread(self._file.fileno(), size, offset)

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at an offset; a gap before them is filled with zeros."""
        if not data:
            return
        end = offset + len(data)
        if self._file is None and end > MAX_SCRATCH_MEMORY_BYTES:
            self._move_to_file()
        if self._file is None:
            if offset > len(self._memory):
                self._memory.extend(bytes(offset - len(self._memory)))
            self._memory[offset:end] = data
        else:
            view = memoryview(data)
            with reporting_errors():
                while view:
                    view = view[os.pwrite(self._file.fileno(), view, end - len(view)) :]
            if end >= self._flushed + _FLUSH_BYTES:
                self._begin_flush(end)
            if offset == self._digested:
                self._digest.update(data)
                self._digested = end
            elif offset < self._digested:
                self._restart_digest()
        self._size = max(self._size, end)

    def truncate(self, size: int) -> None:
        """Make the content that long: cut it, or fill it up with zeros."""
        if self._file is None and size > MAX_SCRATCH_MEMORY_BYTES:
            self._move_to_file()
        if self._file is not None:
            with reporting_errors():
                os.ftruncate(self._file.fileno(), size)
            if size < self._digested:
                self._restart_digest()
        elif size < len(self._memory):
            del self._memory[size:]
        else:
            self._memory.extend(bytes(size - len(self._memory)))
        self._size = size

    def append_from(self, path: Path) -> None:
        """Append the rest of a file: what it has behind as many bytes as are here."""
        with reporting_errors(), path.open("rb") as source:
            source.seek(self._size)
            while part := source.read(_COPY_BYTES):
                self.write(self._size, part)

    def sync(self) -> None:
        """Wait until a temporary file is on the disk."""
        if self._file is not None:
            with reporting_errors():
                os.fsync(self._file.fileno())

    def finish(self) -> str:
        """Store the content as a blob; return its hash. It can still be read."""
        if self._file is None or self._path is None:
            return self._blobs.store(bytes(self._memory))
        self._begin_flush(self._size)
        while part := self.read(self._digested, _COPY_BYTES):
            self._digest.update(part)
            self._digested += len(part)
        sha256 = self._digest.hexdigest()
        with reporting_errors():
            self._blobs.adopt(self._path, sha256)
        return sha256

    def close(self) -> None:
        """Drop the content, unless it is stored."""
        self._memory = bytearray()
        if self._file is not None:
            self._file.close()
        if self._path is not None:
            self._blobs.drop_temporary(self._path)

    def _begin_flush(self, end: int) -> None:
        """Let the disk begin to write what `BlobStore.sync` will wait for."""
        if self._file is None or (self._flushing is not None and self._flushing.is_alive()):
            return
        self._flushed = end
        self._flushing = threading.Thread(target=_flush, args=(os.dup(self._file.fileno()),))
        self._flushing.start()

    def _restart_digest(self) -> None:
        """Read the content again for its hash: a part that was read has changed."""
        self._digest = hashlib.sha256()
        self._digested = 0

    def _move_to_file(self) -> None:
        self._path, self._file = self._blobs.open_temporary()
        moved, self._memory = bytes(self._memory), bytearray()
        self._size = 0
        self.write(0, moved)
        self._size = len(moved)
