"""The check of a push: its commits follow the present one, its files may exist.

Every object that is new is looked at, those of commits between as well: others will clone them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dulwich.errors import ObjectFormatException
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ObjectID, Tree

from sshwarma.common.limits import MAX_PATH_BYTES, MAX_PATH_DEPTH
from sshwarma.git.fsck import (
    MalformedObjectError,
    RawEntry,
    check_commit,
    check_tree,
    find_attributes_problem,
    read_tree,
)
from sshwarma.git.names import ATTRIBUTES, MODULES, is_git_name, is_special_name, leaves_tree
from sshwarma.git.packs import PackedObject
from sshwarma.workspaces.paths import find_path_problem, find_unsafe_character

SUBMODULE_MODE: Final = 0o160000
LINK_MODE: Final = 0o120000
TREE_MODE: Final = 0o040000
FILE_MODES: Final = {0o100644: 0o100644, 0o100664: 0o100644, 0o100755: 0o100755}
"""The modes of files, with those that a room keeps."""

COMMIT_TYPE: Final = Commit.type_num
TREE_TYPE: Final = Tree.type_num
BLOB_TYPE: Final = Blob.type_num
MAX_SHOWN_NAME: Final = 60

NOT_FORWARD: Final = "fetch first: it does not follow the present commit of the room"


class PushRefusedError(Exception):
    """A push that is refused. Its message is a clause, shown in parentheses."""


@dataclass(frozen=True, slots=True)
class PushLimits:
    """What the files of a room may be: the number, and bytes of one and of all."""

    files: int
    file_bytes: int
    workspace_bytes: int


@dataclass(frozen=True, slots=True)
class PushedFile:
    """A file or link that a push changes; `blob_id` is None if it removes it."""

    path: str
    mode: int
    blob_id: ObjectID | None


class PushCheck:
    """The check of one push."""

    def __init__(
        self,
        store: DiskObjectStore,
        pushed: Mapping[ObjectID, PackedObject],
        base: ObjectID | None,
        limits: PushLimits,
        made: Collection[str] = (),
    ) -> None:
        """Look at a push.

        Args:
            store: finds the pushed objects and those of the room.
            pushed: the pushed objects.
            base: the present commit of the room.
            limits: what the files may be.
            made: the ids of commits that were versions of the room.
        """
        self._made = frozenset(made)
        self._store = store
        self._pushed = pushed
        self._base = base
        self._limits = limits
        self._checked: set[tuple[ObjectID, int]] = set()
        self._base_ids: set[ObjectID] | None = None
        self._base_places: dict[str, tuple[int, ObjectID]] | None = None
        self._history_ids: set[ObjectID] | None = None

    def check(self, head: ObjectID) -> list[PushedFile]:
        """Return the files that a push changes.

        Raises:
            PushRefusedError: if it is not accepted.
        """
        commits = self._walk_commits(head)
        for commit in commits:
            self._check_tree(commit.tree, "")
        if not commits:
            raise PushRefusedError("it brings no commit")
        after = dict(self._walk_files(commits[0].tree))
        before = {} if self._base is None else dict(self._walk_files(self._base_tree(), old=True))
        changed = [
            PushedFile(path, *found) for path, found in after.items() if before.get(path) != found
        ]
        self._check_files(changed)
        return [*changed, *(PushedFile(path, 0, None) for path in before if path not in after)]

    def _walk_commits(self, head: ObjectID) -> list[Commit]:
        """Return the new commits, the head first.

        Raises:
            PushRefusedError: if they do not follow the present one, or one is missing.
        """
        commits: list[Commit] = []
        seen, waiting, follows = {head}, [head], self._base is None
        while waiting:
            commit_id = waiting.pop()
            if commit_id == self._base:
                follows = True
            elif commit_id in self._pushed:
                if commit_id.decode() in self._made and commit_id not in self._read_history():
                    raise PushRefusedError(
                        f"the room has taken back {_short(commit_id)}, as by an undo:"
                        f" git fetch; git rebase --onto origin/main {_short(commit_id)}"
                    )
                commits.append(self._read_commit(commit_id))
                parents = commits[-1].parents
                waiting += [parent for parent in parents if parent not in seen]
                seen.update(parents)
            elif commit_id not in self._read_history():
                raise PushRefusedError(f"the commit {_short(commit_id)} is missing")
        if not follows:
            raise PushRefusedError(NOT_FORWARD)
        return commits

    def _read_commit(self, commit_id: ObjectID) -> Commit:
        if self._pushed[commit_id].type_number != COMMIT_TYPE:
            raise PushRefusedError(f"{_short(commit_id)} is no commit")
        commit = self._store[commit_id]
        try:
            check_commit(commit.as_raw_string())
            commit.check()
        except MalformedObjectError as error:
            reason = f"the commit {_short(commit_id)} is malformed: it {error}"
            raise PushRefusedError(reason) from error
        except (ObjectFormatException, ValueError) as error:
            raise PushRefusedError(f"the commit {_short(commit_id)} is malformed") from error
        assert isinstance(commit, Commit)  # noqa: S101 - for mypy: it was checked
        return commit

    # Trees

    def _check_tree(self, tree_id: ObjectID, prefix: str) -> None:
        """Check a tree with all that is in it; each once for each depth.

        One of the room is looked at, too, if it is at another place: where a link leads, and what
        git reads by its name, depend on that.

        Args:
            tree_id: the tree.
            prefix: the path of its folder with a slash; "" at the top.
        """
        depth = prefix.count("/")
        if (tree_id, depth) in self._checked:
            return
        is_old = self._is_old(tree_id, TREE_TYPE)
        self._checked.add((tree_id, depth))
        if depth >= MAX_PATH_DEPTH:
            raise PushRefusedError(f"folders are more than {MAX_PATH_DEPTH} deep")
        try:
            entries = check_tree(self._store[tree_id].as_raw_string())
        except MalformedObjectError as error:
            where = f"of {_cut(prefix)!r}" if prefix else "of the top"
            reason = f"the tree {_short(tree_id)} {where} is malformed: it {error}"
            raise PushRefusedError(reason) from error
        for entry in entries:
            if not is_old:
                _check_name(entry)
            place = f"{prefix}{_decode(entry.path)}{'/' if entry.mode == TREE_MODE else ''}"
            if self._is_in_place(place, entry.mode, entry.sha):
                continue
            self._check_special(entry, prefix)
            if entry.mode == TREE_MODE:
                self._check_tree(entry.sha, place)
            elif entry.mode == LINK_MODE:
                self._check_link(_show(entry.path), entry.sha, depth)
            else:
                self._check_size(_show(entry.path), entry.sha)

    def _check_special(self, entry: RawEntry, prefix: str) -> None:
        """Check a new entry that git reads itself by its name."""
        name = _decode(entry.path)
        shown = f"{_cut(prefix + name)} ({_short(entry.sha)})"
        if is_special_name(name, MODULES):
            what = "a link" if entry.mode == LINK_MODE else "for submodules"
            raise PushRefusedError(f"{shown} is {what}, and a room has only files")
        if is_special_name(name, ATTRIBUTES) and entry.mode != LINK_MODE:
            if entry.mode == TREE_MODE:
                raise PushRefusedError(f"{shown} is a folder, and git wants a file")
            self._check_size(shown, entry.sha)
            if problem := find_attributes_problem(self._store[entry.sha].as_raw_string()):
                raise PushRefusedError(f"{shown} {problem}")

    def _is_old(self, object_id: ObjectID, type_number: int) -> bool:
        """Return whether the room has an object already.

        Raises:
            PushRefusedError: if nobody has it, or it is of another kind.
        """
        found = self._pushed.get(object_id)
        if found is None:
            if object_id not in self._read_base() and object_id not in self._read_history():
                raise PushRefusedError(f"the object {_short(object_id)} is missing")
            return True
        if found.type_number != type_number:
            raise PushRefusedError(f"the object {_short(object_id)} is of a wrong kind")
        return False

    def _read_tree(self, tree_id: ObjectID) -> list[RawEntry]:
        """Return the entries of a tree: one that is new has been checked before."""
        tree = self._store[tree_id]
        if not isinstance(tree, Tree):
            raise PushRefusedError(f"{_short(tree_id)} is no tree")
        try:
            return read_tree(tree.as_raw_string())
        except MalformedObjectError as error:
            raise PushRefusedError(
                f"the tree {_short(tree_id)} is malformed: it {error}"
            ) from error

    def _check_link(self, path: str, blob_id: ObjectID, depth: int) -> None:
        is_new = not self._is_old(blob_id, BLOB_TYPE)
        is_long = is_new and self._pushed[blob_id].size > MAX_PATH_BYTES
        target = b"" if is_long else self._store[blob_id].as_raw_string()
        if is_long or len(target) > MAX_PATH_BYTES:
            raise PushRefusedError(f"the link {path} leads to a name that is too long")
        try:
            text = target.decode()
        except UnicodeDecodeError:
            raise PushRefusedError(f"the link {path} does not lead to a name in UTF-8") from None
        if leaves_tree(text, depth):
            raise PushRefusedError(f"the link {path} leaves the files of the room")

    def _check_size(self, path: str, blob_id: ObjectID) -> None:
        if self._is_old(blob_id, BLOB_TYPE):
            return
        size, most = self._pushed[blob_id].size, self._limits.file_bytes
        if size > most:
            raise PushRefusedError(f"{path} has {size:,} bytes, and a file may have {most:,}")

    # Files

    def _walk_files(
        self, tree_id: ObjectID, prefix: str = "", *, old: bool = False
    ) -> Iterator[tuple[str, tuple[int, ObjectID]]]:
        """Yield the path, mode and id of every file and link in a tree.

        Raises:
            PushRefusedError: if there are too many, or a room cannot have one.
        """
        count = 0
        waiting = [(tree_id, prefix)]
        while waiting:
            tree_id, prefix = waiting.pop()
            for entry in self._read_tree(tree_id):
                path = f"{prefix}{_decode(entry.path)}"
                if not old and (problem := find_path_problem(path)):
                    raise PushRefusedError(f"the path {_cut(path)!r} {problem}")
                count += 1
                if not old and count > 2 * self._limits.files:
                    raise PushRefusedError(f"a room has at most {self._limits.files:,} files")
                if entry.mode == TREE_MODE:
                    waiting.append((entry.sha, f"{path}/"))
                else:
                    yield path, (FILE_MODES.get(entry.mode, entry.mode), entry.sha)

    def _check_files(self, changed: list[PushedFile]) -> None:
        """Check what is changed: a link may be an old one at another place."""
        for file in changed:
            if file.mode == LINK_MODE and file.blob_id is not None:
                self._check_link(_cut(file.path), file.blob_id, file.path.count("/"))
        new = {file.blob_id for file in changed if file.blob_id is not None} & self._pushed.keys()
        total = sum(self._pushed[blob_id].size for blob_id in new)
        if total > self._limits.workspace_bytes:
            raise PushRefusedError(
                f"the files have {total:,} bytes, and those of a room may have"
                f" {self._limits.workspace_bytes:,}"
            )

    # What the room has

    def _base_tree(self) -> ObjectID:
        assert self._base is not None  # noqa: S101 - for mypy
        commit = self._store[self._base]
        assert isinstance(commit, Commit)  # noqa: S101 - for mypy: it is ours
        tree_id: ObjectID = commit.tree
        return tree_id

    def _is_in_place(self, path: str, mode: int, object_id: ObjectID) -> bool:
        """Return whether the present commit has the same at the same place.

        The path of a folder ends with a slash; that of the top is "".
        """
        if self._base_places is None:
            self._base_places = {}
            waiting = [] if self._base is None else [(self._base_tree(), "")]
            while waiting:
                tree_id, prefix = waiting.pop()
                self._base_places[prefix] = (TREE_MODE, tree_id)
                for entry in self._read_tree(tree_id):
                    place = f"{prefix}{_decode(entry.path)}"
                    if entry.mode == TREE_MODE:
                        waiting.append((entry.sha, f"{place}/"))
                    else:
                        self._base_places[place] = (entry.mode, entry.sha)
        return self._base_places.get(path) == (mode, object_id)

    def _read_base(self) -> set[ObjectID]:
        """Return the trees and files of the present commit."""
        if self._base_ids is None:
            self._base_ids = set()
            if self._base is not None:
                self._add_tree(self._base_tree(), self._base_ids)
        return self._base_ids

    def _read_history(self) -> set[ObjectID]:
        """Return all that the commits up to the present one have: seldom needed."""
        if self._history_ids is None:
            found: set[ObjectID] = set()
            waiting = [] if self._base is None else [self._base]
            while waiting:
                commit_id = waiting.pop()
                if commit_id in found:
                    continue
                found.add(commit_id)
                commit = self._store[commit_id]
                if isinstance(commit, Commit):
                    self._add_tree(commit.tree, found)
                    waiting += commit.parents
            self._history_ids = found
        return self._history_ids

    def _add_tree(self, tree_id: ObjectID, found: set[ObjectID]) -> None:
        waiting = [tree_id]
        while waiting:
            tree_id = waiting.pop()
            if tree_id in found:
                continue
            found.add(tree_id)
            for entry in self._read_tree(tree_id):
                if entry.mode == TREE_MODE:
                    waiting.append(entry.sha)
                else:
                    found.add(entry.sha)


def _check_name(entry: RawEntry) -> None:
    """Check the name and mode of an entry of a tree.

    Raises:
        PushRefusedError: if no room can have it.
    """
    name, shown = _decode(entry.path), _show(entry.path)
    if entry.mode == SUBMODULE_MODE:
        raise PushRefusedError(f"{shown} is a submodule, and a room has only files")
    if entry.mode not in (TREE_MODE, LINK_MODE, *FILE_MODES):
        raise PushRefusedError(f"{shown} has the mode {entry.mode:o}")
    if is_git_name(name):
        raise PushRefusedError(f"the name {shown} is git's own")
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        raise PushRefusedError(f"the name {name!r} leaves its folder")
    if problem := find_unsafe_character(name):
        raise PushRefusedError(f"the name {shown} {problem}")


def _decode(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise PushRefusedError(f"the name {_show(name)} is not UTF-8") from None


def _show(name: bytes) -> str:
    return _cut(name.decode(errors="replace"))


def _cut(text: str) -> str:
    plain = "".join(character if character.isprintable() else "?" for character in text)
    return plain[:MAX_SHOWN_NAME]


def _short(object_id: ObjectID) -> str:
    return object_id[:12].decode()
