"""The view of a room: a bare repository with a commit for each version.

It may be deleted at any time: it is made again with the same ids. What decides the id of a commit
is therefore fixed: its author, date and message come from the server as they were stored, and the
files that a repository cannot have are left out by a rule that stays (`is_shown`).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from dulwich.object_store import DiskObjectStore
from dulwich.objects import Commit, ObjectID, Tree
from dulwich.pack import full_unpacked_object

from sshwarma.common.units import MIB
from sshwarma.git.known_versions import read_known_versions, write_known_versions
from sshwarma.git.names import MODULES, has_git_name, is_special_name
from sshwarma.git.packs import (
    MALFORMED,
    DamagedContentError,
    MalformedPackError,
    PackBatch,
    adopt_pack,
    list_entries,
    scan_pack,
    write_pack,
)
from sshwarma.git.pkt_line import BRANCH
from sshwarma.git.tree_writer import TreeWriter

MAX_PACKS: Final = 32
"""Packs of a repository, above which the small ones become one: each is searched for an object."""

SMALL_PACK_BYTES: Final = 4 * MIB

EMAIL_HOST: Final = "sshwarma"
"""What stands behind the @ in the address of an author; it is no host that gets mail."""


class DamagedViewError(Exception):
    """The repository lacks something that it should have: it must be made again."""


def is_shown(path: str, mode: int) -> bool:
    """Return whether a repository has what is at a path.

    It has no empty folders, and no list of submodules: a client that checks objects refuses some,
    and another follows their addresses.
    """
    is_list = any(is_special_name(part, MODULES) for part in path.split("/"))
    return not stat.S_ISDIR(mode) and not is_list and not has_git_name(path)


class View:
    """The repository of one room."""

    def __init__(self, repository: Path, blobs: Path, work: Path) -> None:
        """Open a repository, which is made if it does not exist.

        Args:
            repository: its directory.
            blobs: the directory of the contents of files.
            work: a directory on the same disk for unfinished files.
        """
        self._repository = repository
        self._blobs = blobs
        self._work = work
        (repository / "objects" / "pack").mkdir(mode=0o700, parents=True, exist_ok=True)
        (repository / "refs" / "heads").mkdir(mode=0o700, parents=True, exist_ok=True)
        self.store = DiskObjectStore(str(repository / "objects"))
        self._known = read_known_versions(repository)
        self._chain: set[ObjectID] = set()
        self._batch = PackBatch(repository, work, self.store.__contains__)
        self._blob_ids: dict[str, ObjectID] = {}

    def update(self, base: str | None, versions: Iterable[Mapping[str, Any]]) -> ObjectID | None:
        """Add versions; return the id of the newest commit, None without any.

        Args:
            base: the version that the repository has and the first one follows; None if that is
                the first of all.
            versions: what the server says of each, oldest first (`git.history`).

        Raises:
            DamagedViewError: if the repository lacks something that it should have.
            DamagedContentError: if a content is missing or damaged.
        """
        head = None if base is None else self._find_commit(base)
        writer = self._open_tree(head)
        for version in versions:
            pushed = self._adopt_push(version["push"], head)
            if pushed is not None:
                head = pushed
                writer = self._open_tree(head)
            else:
                head = self._add_commit(version, writer, head)
            self._known[version["id"]] = head.decode()
            self._batch.flush_if_large()
        self._batch.flush()
        write_known_versions(self._repository, self._known, self._work)
        self._point_to(head)
        return head

    def merge_small_packs(self) -> None:
        """Make one pack of many small ones. Nobody else may use the repository."""
        folder = self._repository / "objects" / "pack"
        packs = list(folder.glob("*.pack"))
        small = [pack for pack in packs if pack.stat().st_size < SMALL_PACK_BYTES]
        if len(packs) <= MAX_PACKS or len(small) <= 1:
            return
        ids = {found.id for pack in small for found in scan_pack(pack)[0]}
        objects = (full_unpacked_object(self.store[object_id]) for object_id in sorted(ids))
        before = set(folder.glob("*.pack"))
        write_pack(self._repository, self._work, objects, len(ids))
        if set(folder.glob("*.pack")) - before:  # else it is one of them
            for pack in small:
                pack.with_suffix(".idx").unlink(missing_ok=True)
                pack.unlink()
        self.store.close()
        self.store = DiskObjectStore(str(self._repository / "objects"))

    def close(self) -> None:
        """Close the packs."""
        self.store.close()

    def _find_commit(self, version: str) -> ObjectID:
        commit_id = ObjectID(self._known.get(version, "").encode())
        if not commit_id or commit_id not in self.store:
            raise DamagedViewError(f"the commit of {version} is missing")
        return commit_id

    def _open_tree(self, head: ObjectID | None) -> TreeWriter:
        return TreeWriter(self._read_tree, None if head is None else self._read_commit(head).tree)

    def _read_commit(self, commit_id: ObjectID) -> Commit:
        found = self.store[commit_id]
        if not isinstance(found, Commit):
            raise DamagedViewError(f"{commit_id.decode()} is no commit")
        return found

    def _read_tree(self, tree_id: ObjectID) -> Tree:
        try:
            found = self.store[tree_id]
        except KeyError:
            raise DamagedViewError(f"the tree {tree_id.decode()} is missing") from None
        if not isinstance(found, Tree):
            raise DamagedViewError(f"{tree_id.decode()} is no tree")
        return found

    def _add_commit(
        self, version: Mapping[str, Any], writer: TreeWriter, parent: ObjectID | None
    ) -> ObjectID:
        changes = version["changes"]
        for path, sha256, _ in changes:
            if not sha256:  # before the others: a file may be where a folder was
                writer.remove(path)
        for path, sha256, mode in changes:
            if sha256 and is_shown(path, mode):
                writer.set(path, mode, self._find_blob(sha256))
        commit = Commit()
        commit.tree = writer.write(self._batch.add)
        commit.parents = [] if parent is None else [parent]
        name = version["author"]
        commit.author = commit.committer = f"{name} <{name}@{EMAIL_HOST}>".encode()
        commit.author_time = commit.commit_time = version["at"]
        commit.author_timezone = commit.commit_timezone = 0
        commit.message = version["message"].encode()
        self._batch.add(commit)
        return commit.id

    def _find_blob(self, sha256: str) -> ObjectID:
        blob_id = self._blob_ids.get(sha256)
        if blob_id is None:
            blob_id = self._batch.add_blob(self._path_of(sha256), sha256)
            self._blob_ids[sha256] = blob_id
        return blob_id

    def _path_of(self, sha256: str) -> Path:
        return self._blobs / sha256[:2] / sha256

    def _adopt_push(self, push: list[str] | None, parent: ObjectID | None) -> ObjectID | None:
        """Add the objects that were pushed; return the id of the commit.

        None if they are damaged, or do not follow the commit before, as after a change of the
        rules for commits: then the version becomes a commit of its own.
        """
        if push is None:
            return None
        head, pack = ObjectID(push[0].encode()), self._path_of(push[1])
        self._batch.flush()
        try:
            if head not in self.store:
                objects, checksum = scan_pack(pack)
                copy = self._work / "pushed.pack"
                shutil.copyfile(pack, copy)
                entries = list_entries(copy, objects)
                adopt_pack(self._repository, self._work, copy, entries, checksum)
            return head if self._follows(head, parent) else None
        except (MalformedPackError, DamagedContentError, FileNotFoundError, *MALFORMED):
            return None

    def _follows(self, head: ObjectID, parent: ObjectID | None) -> bool:
        """Return whether the commits from the parent to a head are here.

        What the room has taken back is not of its chain: the answer must be the same without it.
        """
        chain = self._read_chain(parent)
        found, seen, waiting = parent is None, set(), [head]
        while waiting:
            commit_id = waiting.pop()
            if commit_id == parent:
                found = True
            elif commit_id not in seen and commit_id not in chain:
                seen.add(commit_id)
                waiting += self._read_commit(commit_id).parents
        self._chain |= seen if found else set()
        return found

    def _read_chain(self, tip: ObjectID | None) -> set[ObjectID]:
        """Return a commit of the chain and all before it, reading unknown ones."""
        waiting = [] if tip is None else [tip]
        while waiting:
            commit_id = waiting.pop()
            if commit_id not in self._chain:
                self._chain.add(commit_id)
                waiting += self._read_commit(commit_id).parents
        return self._chain

    def _point_to(self, head: ObjectID | None) -> None:
        """Set the branch, for programs that look into the repository."""
        branch = self._repository / os.fsdecode(BRANCH)
        if head is None:
            branch.unlink(missing_ok=True)
        else:
            unfinished = self._work / "main"
            unfinished.write_bytes(head + b"\n")
            unfinished.replace(branch)
        (self._repository / "HEAD").write_bytes(b"ref: %b\n" % BRANCH)
