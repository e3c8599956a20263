"""A folder with the files of a room, for programs in sandboxes.

What programs left there is hostile: links to elsewhere, pipes, folders without end. Everything is
opened by the name in its folder and never through a link; nothing runs inside meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from sshwarma.common.finish import check_stop
from sshwarma.common.limits import MAX_WORKSPACE_BYTES, MAX_WORKSPACE_ENTRIES
from sshwarma.common.messages import with_limit
from sshwarma.common.units import KIB, MIB
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.delete_tree import delete_tree
from sshwarma.workspaces.modes import open_up
from sshwarma.workspaces.paths import find_path_problem, list_parents
from sshwarma.workspaces.tree import (
    EMPTY_FOLDER,
    FILE_MODE,
    LINK_MODE,
    PROGRAM_MODE,
    Entry,
    Tree,
)

_MAX_ENTRIES: Final = 2 * MAX_WORKSPACE_ENTRIES
"""Entries of a folder that are read. In a room, folders with files are no entries."""

SAFE_AGE_NS: Final = 20_000_000
"""Age of a change, in nanoseconds, from which a later one has another time on every kernel."""

_REMOVED: Final = ".removed-"
"""Where a folder goes before it is deleted, beside that of the room."""

_PART_BYTES: Final = 256 * KIB

_OPEN: Final = os.O_NOFOLLOW | os.O_CLOEXEC


class UnusableFolderError(Exception):
    """What programs left cannot be the files of a room. Its message is a clause."""


class Stamp(NamedTuple):
    """What differs when a file was changed; a program can set all but `changed_ns`."""

    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    mode: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files that a folder has now.

    Attributes:
        tree: their entries; all contents are stored.
        left_out: the names of what a workspace cannot have, such as pipes.
    """

    tree: Tree
    left_out: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """What a folder contains, by path."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)  # each after the one that it is in
    left_out: list[str] = field(default_factory=list)
    padded: list[str] = field(default_factory=list)  # files with blocks beyond their end

    @property
    def count(self) -> int:
        """All that it contains."""
        return len(self.stamps) + len(self.folders) + len(self.left_out)


class Folder:
    """The folder of one room. Its methods block: call them in threads, one at a time."""

    def __init__(self, path: Path, blobs: BlobStore) -> None:
        """Use a folder, which is made when it is needed."""
        self.path = path
        self._blobs = blobs
        self._known: dict[str, tuple[Stamp, Entry]] = {}

    def materialize(self, tree: Tree, stop: threading.Event | None = None) -> None:
        """Make the folder equal to a tree; equal files are not touched.

        `stop` ends it early, between two files or parts of one; the next call does the rest.

        Raises:
            DamagedBlob: if a content is missing or damaged.
            OSError: if the disk is full or fails.
            StoppedError: if it was stopped.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            found = self._walk()
        except UnusableFolderError:
            self.discard()
            self.path.mkdir(mode=0o700)
            found = _Found()
        equal = {
            path
            for path in found.stamps
            if path in tree and self._get_entry(path, found) == tree[path]
        }
        wanted = {above for path in tree for above in list_parents(path)}
        wanted |= {path for path, entry in tree.items() if entry.is_folder}
        with _open_folder(self.path) as top:
            for path in (*found.left_out, *found.stamps.keys() - equal):
                check_stop(stop)
                self._remove(top, path)
            for path in reversed(found.folders):
                check_stop(stop)
                if path not in wanted:
                    _remove_folder(top, path)
            for path in sorted(wanted):
                check_stop(stop)
                with _open_parent(top, path) as (parent, name):
                    _make_folder(parent, name)
            changed = [path for path in tree if path not in equal and path not in wanted]
            for path in sorted(changed, key=lambda path: tree[path].is_link):  # links last
                with _open_parent(top, path) as (parent, name):
                    self._write(parent, name, tree[path], stop)
        self._remember(self._walk(), tree)

    def snapshot(self) -> Snapshot:
        """Store what the folder contains now.

        A file with blocks beyond its end is taken out, and written again for the next program:
        to truncate it to the size that it has frees them on some file systems only.

        Raises:
            UnusableFolderError: if it has too many files or bytes; nothing is stored then.
            Unavailable: if a content cannot be stored, as on a full disk.
            OSError: if the folder cannot be read.
        """
        found = self._walk()
        _check_size(found)
        tree: dict[str, Entry] = {}
        is_changed = False
        with _open_folder(self.path) as top:
            for path, stamp in found.stamps.items():
                entry = self._get_entry(path, found)
                if entry is None:
                    is_changed = True
                    with _open_parent(top, path) as (parent, name):
                        entry = self._store(parent, name, stamp)
                tree[path] = entry
            for path in found.padded:
                self._remove(top, path)
                del found.stamps[path]
        filled = {above for path in tree for above in list_parents(path)}
        filled |= {above for path in found.folders for above in list_parents(path)}
        tree |= {path: EMPTY_FOLDER for path in found.folders if path not in filled}
        if is_changed:  # known contents are on the disk, which others may keep busy
            self._blobs.sync()
        self._remember(found, tree)
        return Snapshot(tree, tuple(sorted(found.left_out)))

    def discard(self) -> None:
        """Delete the folder, whatever is in it."""
        self._known.clear()
        delete_tree(self.path)

    def _get_entry(self, path: str, found: _Found) -> Entry | None:
        """Return the entry of a file that has not changed since it was read or written."""
        known = self._known.get(path)
        return known[1] if known is not None and known[0] == found.stamps[path] else None

    def _remember(self, found: _Found, tree: Tree) -> None:
        oldest = time.time_ns() - SAFE_AGE_NS
        self._known = {
            path: (stamp, tree[path])
            for path, stamp in found.stamps.items()
            if path in tree and stamp.changed_ns < oldest
        }

    def _walk(self) -> _Found:
        """Return what the folder contains.

        Raises:
            UnusableFolderError: if it has too many entries.
        """
        found = _Found()
        self.path.chmod(stat.S_IRWXU)
        with _open_folder(self.path) as top:
            self._walk_folder(top, "", found)
        return found

    def _walk_folder(self, folder: int, prefix: str, found: _Found) -> None:
        """Add what a folder contains; one that is too deep has a path that is left out."""
        with os.scandir(folder) as scanned:  # of any number: a look from outside sees not all
            first = islice(scanned, _MAX_ENTRIES + 1)
            entries = sorted(first, key=lambda entry: entry.name)
        for entry in entries:
            path = f"{prefix}{entry.name}"
            status = entry.stat(follow_symlinks=False)
            is_folder = stat.S_ISDIR(status.st_mode)
            is_named_well = path in self._known or not find_path_problem(path)
            if not is_named_well or not (
                is_folder or stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
            ):
                found.left_out.append(path)
            elif is_folder:
                found.folders.append(path)
                if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                    open_up(entry.name, folder)
                with _open_child(folder, entry.name) as child:
                    self._walk_folder(child, f"{path}/", found)
            else:
                found.stamps[path] = _stamp(status)
                if 512 * status.st_blocks - status.st_blksize > status.st_size:
                    found.padded.append(path)
            if found.count > _MAX_ENTRIES:
                raise UnusableFolderError(
                    with_limit("it has too many files", f"{MAX_WORKSPACE_ENTRIES:,}")
                )

    def _store(self, parent: int, name: str, stamp: Stamp) -> Entry:
        """Store the content of a file, or the target of a link."""
        if stat.S_ISLNK(stamp.mode):
            target = os.fsencode(os.readlink(name, dir_fd=parent))
            return Entry(self._blobs.store(target), LINK_MODE, len(target))
        with contextlib.closing(self._blobs.begin_upload()) as upload:
            with _open_file(parent, name, os.O_RDONLY | os.O_NONBLOCK) as file:
                while part := os.read(file, _PART_BYTES):
                    upload.write(part)
            mode = PROGRAM_MODE if stamp.mode & 0o111 else FILE_MODE
            return Entry(upload.finish(), mode, upload.size)

    def _remove(self, top: int, path: str) -> None:
        """Remove a file; a folder whose name no file may have, with all in it."""
        with _open_parent(top, path) as (parent, name), _open_folder(self.path.parent) as beside:
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                open_up(name, parent)
                removed = f"{_REMOVED}{secrets.token_hex(8)}"  # other rooms remove, too
                os.rename(name, removed, src_dir_fd=parent, dst_dir_fd=beside)
                delete_tree(self.path.with_name(removed))
            else:
                os.unlink(name, dir_fd=parent)

    def _write(self, parent: int, name: str, entry: Entry, stop: threading.Event | None) -> None:
        """Write a file or link; what has its name is an earlier file, or nothing."""
        check_stop(stop)
        if entry.is_link:
            os.symlink(self._blobs.read(entry.sha256), os.fsencode(name), dir_fd=parent)
            return
        source = self._blobs.path_of(entry.sha256)
        digest = hashlib.sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with _open_file(parent, name, flags) as file:
            with contextlib.suppress(FileNotFoundError), source.open("rb") as content:
                while part := content.read(_PART_BYTES):
                    check_stop(stop)
                    digest.update(part)
                    view = memoryview(part)
                    while view:
                        view = view[os.write(file, view) :]
            os.fchmod(file, stat.S_IMODE(entry.mode))
        if digest.hexdigest() != entry.sha256:
            self._blobs.check(entry.sha256)


def _check_size(found: _Found) -> None:
    """Refuse what no room may have, before anything is stored.

    Raises:
        UnusableFolderError: if there are too many files, or bytes in them.
    """
    if len(found.stamps) > MAX_WORKSPACE_ENTRIES:
        limit = f"{MAX_WORKSPACE_ENTRIES:,}"
        raise UnusableFolderError(with_limit("it has too many files", limit))
    if sum(stamp.size for stamp in found.stamps.values()) > MAX_WORKSPACE_BYTES:
        limit = f"{MAX_WORKSPACE_BYTES // MIB} MiB"
        raise UnusableFolderError(with_limit("its files are too large", limit))


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(
        status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode
    )


@contextlib.contextmanager
def _open_folder(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _OPEN)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _open_child(parent: int, name: str) -> Iterator[int]:
    """Open a folder in a folder."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | _OPEN, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _open_parent(top: int, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder that a path is in, step by step; yield it and the last name."""
    *folders, name = path.split("/")
    with contextlib.ExitStack() as stack:
        parent = top
        for folder in folders:
            parent = stack.enter_context(_open_child(parent, folder))
        yield parent, name


@contextlib.contextmanager
def _open_file(parent: int, name: str, flags: int) -> Iterator[int]:
    try:
        descriptor = os.open(name, flags | _OPEN, 0o600, dir_fd=parent)
    except PermissionError:  # its mode lets nobody read it
        open_up(name, parent)
        descriptor = os.open(name, flags | _OPEN, 0o600, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _make_folder(parent: int, name: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)


def _remove_folder(top: int, path: str) -> None:
    with _open_parent(top, path) as (parent, name):
        os.rmdir(name, dir_fd=parent)
