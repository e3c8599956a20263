"""A push that the process has checked becomes a version of the room's files.

What the process says is checked again: it has read what strangers sent.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import insert

from sshwarma.common.finish import check_stop, run_in_thread
from sshwarma.common.limits import MAX_GIT_PUSH_BYTES
from sshwarma.common.shorten import shorten_name
from sshwarma.common.units import KIB
from sshwarma.git.access import GitAccess
from sshwarma.git.history import read_newest_commit
from sshwarma.workspaces.change_kinds import ChangeKind, find_change_kinds
from sshwarma.workspaces.change_notice import describe_changes
from sshwarma.workspaces.paths import find_path_problem
from sshwarma.workspaces.tree import FILE_MODE, LINK_MODE, PROGRAM_MODE, Changes, Entry, Tree
from sshwarma.workspaces.workspace import Workspaces, check_file_size
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.schema import git_pushes
from sshwarma.world.store import Change

_READ_BYTES: Final = 256 * KIB
_MODES: Final = (FILE_MODE, PROGRAM_MODE, LINK_MODE)


@dataclass(frozen=True, slots=True)
class CheckedPush:
    """A push as the process describes it.

    Attributes:
        base_id: the version that it follows; None before the first.
        head: the id of its newest commit.
        pack: the pushed objects.
        contents: the files with the new contents, in a directory of the session.
        changes: the path, mode and content of each changed file; None removes it. A content is
            the name of its file, its hash and its size.
    """

    base_id: str | None
    head: str
    pack: Path
    contents: Path
    changes: Sequence[tuple[str, int, tuple[str, str, int] | None]]

    @classmethod
    def parse(cls, state: Mapping[str, Any], base_id: str | None, work: Path) -> CheckedPush:
        """Read what the process says.

        Raises:
            Invalid: if it is malformed.
        """
        try:
            changes = [
                (str(path), int(mode), None if found is None else _parse_content(found))
                for path, mode, found in state["changes"]
            ]
            head = str(state["head"])
            if len(bytes.fromhex(head)) != 20:
                raise ValueError("no id of a commit")
        except (KeyError, TypeError, ValueError) as error:
            raise Invalid("The push could not be read.") from error
        return cls(base_id, head, work / "received.pack", work / "contents", changes)


def _parse_content(found: Sequence[Any]) -> tuple[str, str, int]:
    name, sha256, size = found
    return str(int(name)), str(sha256), int(size)


async def accept_push(
    caller: Caller,
    workspaces: Workspaces,
    push: CheckedPush,
    access: GitAccess,
) -> None:
    """Make a version of a push; commits that change no file make one, too.

    Args:
        caller: who pushes, in the room.
        workspaces: the files of all rooms.
        push: what is pushed.
        access: says who may change the files now.

    Raises:
        WorldError: if the caller may not, the room has changed, or it is too large.
    """
    caller = await access.check(caller)
    # In threads: a push may change some thousand files.
    caller.charge_file_volume(await asyncio.to_thread(_check_changes, push))
    # To its end: the files of the process are deleted afterwards.
    sizes, pack_sha256, pack_size = await run_in_thread(lambda stop: _store(workspaces, push, stop))
    _, present = await workspaces.read_tree(caller.room_id)
    changes, described = await asyncio.to_thread(_list_changes, push, sizes, present)
    caller = await access.check(caller)  # again: storing may have taken long

    def work(tx: Change) -> None:
        def edit(_: Tree) -> Changes:
            if read_newest_commit(tx.conn, caller.room_id) != push.base_id:
                raise Conflict("fetch first: somebody changed the room meanwhile")
            return changes

        changed = workspaces.change_in(
            tx,
            caller.room_id,
            edit,
            source="git_push",
            source_ref=push.head,
            author_id=caller.agent.id,
        )
        tx.conn.execute(
            insert(git_pushes).values(
                manifest_id=changed.manifest.id,
                head=push.head,
                pack_sha256=pack_sha256,
                pack_size=pack_size,
            )
        )
        caller.append_notice(tx, _describe(changed.changes, changed.kinds))

    access.begin_storing()
    await caller.with_verb("git push", f"git push: {described}").change(work)


def _describe(changes: Changes, kinds: Mapping[str, ChangeKind]) -> str:
    return describe_changes(changes, kinds, "git push") or "pushed commits that change no file"


def _check_changes(push: CheckedPush) -> int:
    """Return how many bytes a push brings.

    Raises:
        Invalid: if a room cannot have one of its files, or it is too large.
    """
    total = pack_size = push.pack.stat().st_size
    for path, mode, found in push.changes:
        if problem := find_path_problem(path):
            raise Invalid(f"{shorten_name(path)!r} {problem}.")
        if found is not None:
            check_file_size(found[2])
            total += found[2]
            if mode not in _MODES:
                raise Invalid(f"{shorten_name(path)!r} has the mode {mode:o}.")
    if pack_size > MAX_GIT_PUSH_BYTES:
        raise Invalid("The push is too large.")
    return total


def _list_changes(
    push: CheckedPush, sizes: Mapping[str, int], present: Tree
) -> tuple[Changes, str]:
    """Return what a push changes, also in words, from the sizes of contents."""
    changes: Changes = {
        path: None if found is None else Entry(found[1], mode, sizes[found[1]])
        for path, mode, found in push.changes
    }
    return changes, _describe(changes, find_change_kinds(present, changes))


def _store(
    workspaces: Workspaces, push: CheckedPush, stop: threading.Event
) -> tuple[dict[str, int], str, int]:
    """Store the contents and the pack, on the disk.

    Returns the sizes of the contents by their hash, and the hash and size of the pack.
    """
    sizes: dict[str, int] = {}
    for _, _, found in push.changes:
        check_stop(stop)
        if found is not None and found[1] not in sizes:
            name, expected, _ = found
            sha256, sizes[expected] = _store_file(workspaces, push.contents / name)
            if sha256 != expected:
                raise Invalid("The push could not be read: a content has another hash.")
    pack_sha256, pack_size = _store_file(workspaces, push.pack)
    workspaces.blobs.sync()
    return sizes, pack_sha256, pack_size


def _store_file(workspaces: Workspaces, path: Path) -> tuple[str, int]:
    """Store a file of the process, which is no link; return its hash and size."""
    upload = workspaces.blobs.begin_upload()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            while part := os.read(descriptor, _READ_BYTES):
                upload.write(part)
        finally:
            os.close(descriptor)
        return upload.finish(), upload.size
    finally:
        upload.close()
