"""Files that are complete when they get their names, and the sizes of files."""

from __future__ import annotations

import os
from pathlib import Path


def give_name(file: Path, name: Path) -> None:
    """Give a complete file its name; replace nothing, also without hard links.

    Raises:
        FileExistsError: if a file has that name.
    """
    try:
        os.link(file, name)
    except FileExistsError:
        raise
    except OSError:  # such as a memory stick
        if name.exists():
            raise FileExistsError(f"{name} already exists. Choose another.") from None
        file.rename(name)


def store_on_disk(path: Path) -> None:
    """Wait until a file, or the names in a directory, would outlast a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def measure_tree(path: Path) -> int:
    """Return the bytes of a file, or of the files in a directory; 0 without it."""
    try:
        if path.is_dir():
            found = [Path(folder) / name for folder, _, names in os.walk(path) for name in names]
            return sum(file.lstat().st_size for file in found)
        return path.lstat().st_size
    except OSError:  # it was deleted meanwhile, or is of another user
        return 0


def is_on_read_only_disk(path: Path) -> bool:
    """Return whether the file system of a path is mounted read-only.

    The mode of a file does not say it, nor does it stop root.

    Raises:
        OSError: if the path does not exist, or cannot be reached.
    """
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def identify_file(file: Path | int) -> tuple[int, int] | None:
    """Return what tells a file from all others; None if it does not exist.

    `file` is its path, or the descriptor of an open one.
    """
    try:
        status = os.stat(file)  # noqa: PTH116 - a Path is of no descriptor
    except OSError:
        return None
    return status.st_dev, status.st_ino


class NamedFile:
    """A file that is open, and the name by which others should find it."""

    def __init__(self, path: Path, handle: int | None = None) -> None:
        """Take an open file or directory; without its `handle`, what has the name now."""
        self._path = path
        self._identity = identify_file(path if handle is None else handle)

    @property
    def is_lost(self) -> bool:
        """Whether the file was moved, deleted or replaced, and is not back."""
        return identify_file(self._path) != self._identity
