"""Programs that work on the files of a room: a folder before, a version after.

One at a time in a room, so that their changes never mix. The folder is made equal to the present
version, the program runs in a sandbox and is ended, then what it left becomes a version: merged
into the present one, because others may have changed files meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import structlog

from sshwarma.common.finish import finish, run_in_thread
from sshwarma.common.limits import MAX_NAMED_FILES
from sshwarma.common.locks import hold_lock
from sshwarma.common.shorten import join_with_rest, shorten_name
from sshwarma.sandbox.host import SandboxHost, SandboxUser
from sshwarma.settings import FOLDERS_DIRECTORY, Settings
from sshwarma.workspaces.blobs import BlobStore, write_error
from sshwarma.workspaces.change_kinds import ChangeKind
from sshwarma.workspaces.delete_tree import delete_tree, deleting_leftovers, set_aside
from sshwarma.workspaces.keep_both import MergingEdit, PathChange
from sshwarma.workspaces.manifests import NothingChanges
from sshwarma.workspaces.run_folder import Folder, Snapshot, UnusableFolderError
from sshwarma.workspaces.run_record import (
    Wait,
    begin_run,
    begin_wait,
    note_changes,
    record_no_change,
)
from sshwarma.workspaces.tree import Changes, Tree, compare_trees
from sshwarma.workspaces.workspace import Changed, Workspaces
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError
from sshwarma.world.resources import resource_dir
from sshwarma.world.world import World

T = TypeVar("T")

MAX_KEPT_FOLDERS: Final = 32
"""Folders that stay on the disk for the next program of their room, each of at most
MAX_WORKSPACE_BYTES."""

MAX_NAMED_CONFLICTS: Final = 10
"""Files of two versions that a result names, each on a line of its own."""

DEVICES_DIRECTORY: Final = "devices"
"""In the data directory of a server that runs as root: the devices of its sandboxes."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What a program did to the files of its room.

    Attributes:
        changes: what it changed.
        kinds: what it did at each of these paths.
        left_out: names of what it left that no room can have, such as pipes.
        kept_both: by path, where the program's file is, because somebody changed that path
            meanwhile; "" where the program has removed it, which was not done.
        merged: paths that somebody changed meanwhile in other lines, and that have both.
        problem: why nothing of it was kept, as a clause; "" if it was.
    """

    changes: Changes = field(default_factory=dict)
    kinds: Mapping[str, ChangeKind] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    kept_both: dict[str, str] = field(default_factory=dict)
    merged: tuple[str, ...] = ()
    problem: str = ""


def sandbox_user(caller: Caller) -> SandboxUser:
    """Return for whom the programs of a caller run: the person who asked a model."""
    return SandboxUser(caller.person_id or caller.agent.id, caller.on_progress)


class WorkspaceRuns:
    """The folders in which programs work, by room."""

    def __init__(self, workspaces: Workspaces, sandbox: SandboxHost, directory: Path) -> None:
        """Use a directory for folders, which are copies and may be deleted at any time."""
        self.workspaces = workspaces
        self.sandbox = sandbox
        self._directory = directory
        self._folders: OrderedDict[str, Folder] = OrderedDict()
        self._locks: weakref.WeakValueDictionary[str, asyncio.Semaphore] = (
            weakref.WeakValueDictionary()
        )

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, world: World, settings: Settings) -> AsyncIterator[Self]:
        """Use the data directory; check the sandbox, and delete leftovers of a server.

        Its folders, which may have any number of files, are deleted in the background.
        """
        workspaces = Workspaces(world, BlobStore(settings.blobs_dir))
        data_dir = settings.data_dir
        sandbox = SandboxHost(
            resource_dir("embedded") / "sandbox", data_dir, data_dir / DEVICES_DIRECTORY
        )
        runs = cls(workspaces, sandbox, data_dir / FOLDERS_DIRECTORY)
        await asyncio.to_thread(workspaces.blobs.delete_uploads)
        await sandbox.end_leftovers()  # they could write to the folders
        await asyncio.to_thread(set_aside, runs._directory)
        if (obstacle := await sandbox.check()) is not None:
            log.warning("no sandbox", reason=obstacle.reason, remedy=obstacle.remedy)
        elif not sandbox.limits_processes:
            log.warning("processes are not limited", remedy="run the server as another user")
        async with deleting_leftovers(data_dir):
            yield runs

    async def run(
        self,
        caller: Caller,
        work: Callable[[Path], Awaitable[T]],
        check: Callable[[], Awaitable[None]],
    ) -> tuple[T, RunFiles]:
        """Work on the files of the caller's room; return the result and what it changed.

        One call at a time works in a room, and one of each person waits for it, so that nobody
        keeps others waiting for long. `own`, `share` and `lock` are taken in this order, so that a
        call that waits holds up calls of the same person alone, and the room's lock is held only
        by the one that works, or waits for a slot. They are semaphores, which know whether a
        newcomer would wait: a lock that was just given back does not.

        Args:
            caller: who works.
            work: gets the folder, and must have ended every process in it when it returns or
                raises. What it left is kept, also if it fails or is stopped.
            check: raises if the caller may not do this any more; called when the turn has come,
                which may be minutes later.

        Raises:
            WorldError: from `check`.
            SandboxError: if there can be no sandbox.
            DamagedBlob: if a file of the room cannot be read.
            Unavailable: if the disk is full or fails before the work. Afterwards, the result says
                why nothing of the files was kept.
        """
        self.sandbox.require()  # else a version would be made for a call that cannot run
        user = sandbox_user(caller)
        lock = self._locks.setdefault(caller.room_id, asyncio.Semaphore())
        own = self._locks.setdefault(f"{caller.room_id} {user.id}", asyncio.Semaphore())
        share = self.sandbox.take_share(user)
        first = hold_lock(own, user.tell, "Waiting for another program of yours in this room.")
        turn = hold_lock(lock, user.tell, "Waiting for another program in this room.")
        is_busy = own.locked() or lock.locked() or self.sandbox.is_busy_for(user)
        wait = await begin_wait(caller, is_busy=is_busy)
        try:
            async with first, share, turn:
                result, files = await self._run_in_turn(caller, work, check, wait)
                await self._delete_old_folders()
        finally:
            wait.end()
        return result, files

    async def _run_in_turn(
        self,
        caller: Caller,
        work: Callable[[Path], Awaitable[T]],
        check: Callable[[], Awaitable[None]],
        wait: Wait,
    ) -> tuple[T, RunFiles]:
        """Work when no other program does in the room; see `run`."""
        folder = self._use_folder(caller.room_id)
        keep: Callable[[], Coroutine[Any, Any, RunFiles]] | None = None
        try:
            async with self.sandbox.take_slot(sandbox_user(caller)):
                await check()
                wait.end()
                before_id, base = await begin_run(caller, self.workspaces)
                await self._materialize(folder, base)
                keep = functools.partial(self._keep, caller, folder, before_id, base)
                result = await work(folder.path)
        except BaseException:
            if keep is not None:
                await finish(keep())
            raise
        return result, await finish(keep())

    async def _materialize(self, folder: Folder, base: Tree) -> None:
        """Make a folder equal to a tree.

        Its thread has ended before the lock is free: the next run has the same folder.

        Raises:
            DamagedBlob, Unavailable: as `run` says.
        """
        try:
            await run_in_thread(functools.partial(folder.materialize, base))
        except OSError as error:
            await finish(_discard(folder))  # what is written fills the disk
            raise write_error(error) from error

    def _use_folder(self, room_id: str) -> Folder:
        folder = self._folders.get(room_id)
        if folder is None:
            folder = self._folders[room_id] = Folder(
                self._directory / room_id, self.workspaces.blobs
            )
        self._folders.move_to_end(room_id)
        return folder

    async def _delete_old_folders(self) -> None:
        """Delete the folders that were used longest ago, but for those in use.

        Their names are free at once: a run may begin there before a thread has deleted them.
        """
        while len(self._folders) > MAX_KEPT_FOLDERS:
            room_id = next(
                (
                    room_id
                    for room_id in self._folders
                    if room_id not in self._locks or not self._locks[room_id].locked()
                ),
                None,
            )
            if room_id is None:
                return
            try:
                old = set_aside(self._folders.pop(room_id).path)
                if old is not None:
                    await asyncio.to_thread(delete_tree, old)
            except OSError as error:  # the result of the program counts
                log.error("old folders were not deleted", reason=str(error))

    async def _keep(
        self, caller: Caller, folder: Folder, before_id: str | None, base: Tree
    ) -> RunFiles:
        """Make a version of what a program left in the folder, or say why not.

        Its result, or that it was stopped, counts, whatever becomes of the files.
        """
        try:
            found = await asyncio.to_thread(folder.snapshot)
            files = await self._merge(caller, base, found)
        except (UnusableFolderError, WorldError) as error:
            files = RunFiles(problem=_describe_problem(error))
        except OSError as error:
            log.exception("what a program left could not be read")
            files = RunFiles(problem=f"they could not be read: {error.strerror}")
        await note_changes(caller, files.changes, files.kinds)
        if not files.changes:
            await record_no_change(caller, before_id)
        if files.left_out or files.problem:  # it may be of any size, and the disk full
            await _discard(folder)
        return files

    async def _merge(self, caller: Caller, base: Tree, found: Snapshot) -> RunFiles:
        made = await asyncio.to_thread(_list_path_changes, base, found.tree)
        _, present = await self.workspaces.read_tree(caller.room_id)
        edit = await MergingEdit.prepare(self.workspaces.blobs, present, made, caller.agent.name)
        changed: Changed | None = None
        if await asyncio.to_thread(edit, present):
            with contextlib.suppress(NothingChanges):  # others have made the same changes
                changed = await self.workspaces.change(caller, edit, source="tool_run")
        return RunFiles(
            changed.changes if changed else {},
            changed.kinds if changed else {},
            found.left_out,
            dict(edit.result.kept),
            edit.result.merged,
        )


def _list_path_changes(base: Tree, found: Tree) -> dict[str, PathChange]:
    return {
        path: PathChange(base.get(path), entry)
        for path, entry in compare_trees(base, found).items()
    }


async def _discard(folder: Folder) -> None:
    """Delete a folder, or what can be deleted of it; the next run makes it right."""
    try:
        await asyncio.to_thread(folder.discard)
    except OSError as error:
        log.error("old folders were not deleted", reason=str(error))


def _describe_problem(error: UnusableFolderError | WorldError) -> str:
    """Return as a clause why files were not kept."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno:
        return f"they could not be stored: {os.strerror(cause.errno)}"
    return str(error).rstrip(".")


def describe_files(files: RunFiles) -> tuple[str, ...]:
    """Return what people must know of the files, as sentences."""
    notes = []
    if files.problem:
        notes.append(f"Its changes of files were not kept: {files.problem}.")
    if files.left_out:
        shown = [ascii(shorten_name(path)) for path in files.left_out[:MAX_NAMED_FILES]]
        named = join_with_rest(shown, MAX_NAMED_FILES, total=len(files.left_out))
        notes.append(f"A room cannot have these, so they were left out: {named}.")
    if files.merged:
        named = join_with_rest(list(files.merged), MAX_NAMED_FILES)
        notes.append(f"Somebody changed other lines meanwhile, and both are in: {named}.")
    notes += [
        f"Somebody changed {path} meanwhile, and that stays."
        + (f" The other version is {other}." if other else "")
        for path, other in islice(files.kept_both.items(), MAX_NAMED_CONFLICTS)
    ]
    if (rest := len(files.kept_both) - MAX_NAMED_CONFLICTS) > 0:
        notes.append(f"So it is with {rest:,} more: those whose names have .from- are the others.")
    return tuple(notes)
