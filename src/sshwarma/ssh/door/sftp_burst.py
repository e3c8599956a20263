"""Bursts: changes of one client to the files of a room, which become one version.

They gather until nothing has changed for SFTP_BURST_SECONDS, or the client has gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

import structlog

from sshwarma.common.limits import MAX_SFTP_BURST_SECONDS, SFTP_BURST_SECONDS
from sshwarma.common.shorten import join_with_rest, shorten_name
from sshwarma.workspaces.change_kinds import find_change_kinds
from sshwarma.workspaces.change_notice import describe_changes
from sshwarma.workspaces.keep_both import MergingEdit, PathChange
from sshwarma.workspaces.manifests import NothingChanges
from sshwarma.workspaces.tree import Entry
from sshwarma.workspaces.workspace import Changed, Workspaces
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError

log = structlog.get_logger(__name__)


class Burst:
    """Changes that wait to become a version, and those that are becoming one."""

    def __init__(self, workspaces: Workspaces, on_due: Callable[[], None]) -> None:
        """Gather changes; `on_due` is called when no more came for a while."""
        self._workspaces = workspaces
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._began_at = 0.0
        self._waiting: dict[str, PathChange] = {}
        self._committing: dict[str, PathChange] = {}
        self._held: list[str] = []
        self._committing_held: list[str] = []
        self.changed_at: dict[str, int] = {}
        """When each path changed, in seconds since 1970."""

    def __len__(self) -> int:
        return len(self._waiting)

    def find(self, path: str) -> PathChange | None:
        """Return the change of a path that is in no version yet."""
        return self._waiting.get(path) or self._committing.get(path)

    @property
    def entries(self) -> dict[str, Entry | None]:
        """What is at the paths that have changed."""
        changes = {**self._committing, **self._waiting}
        return {path: change.entry for path, change in changes.items()}

    def add(self, path: str, base: Entry | None, entry: Entry | None) -> None:
        """Add a change; `base` is what the version had at the path when the change began."""
        earlier = self._waiting.get(path)
        if not self._waiting:
            self._began_at = time.monotonic()
        self._waiting[path] = PathChange(base if earlier is None else earlier.base, entry)
        self.changed_at[path] = int(time.time())
        if entry is not None and entry.sha256:
            self._workspaces.blobs.hold(entry.sha256)
            self._held.append(entry.sha256)
        self.touch()

    def touch(self) -> None:
        """Wait again: the client is still at it."""
        if not self._waiting:
            return
        self.stop()
        left = self._began_at + MAX_SFTP_BURST_SECONDS - time.monotonic()
        seconds = max(0.0, min(SFTP_BURST_SECONDS, left))
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_due)

    def stop(self) -> None:
        """Stop the timer: the next change starts it again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def commit(
        self, find_caller: Callable[[], Awaitable[Caller]], tell: Callable[[str], None]
    ) -> None:
        """Make a version of what has gathered; one at a time.

        Where others have changed a file meanwhile, both contents are kept.

        Args:
            find_caller: returns who may change the files now.
            tell: tells the person what was refused, or kept under another name.
        """
        self.stop()
        if not self._waiting:
            return
        self._committing, self._waiting = self._waiting, {}
        self._committing_held, self._held = self._held, []
        try:
            await self._make_version(find_caller, tell)
        finally:
            self._finish()

    async def _make_version(
        self, find_caller: Callable[[], Awaitable[Caller]], tell: Callable[[str], None]
    ) -> None:
        made = self._committing
        described = _describe(made)

        def notice(changed: Changed) -> str:
            conflicts = describe_conflicts(merging.result.kept)
            text = describe_changes(changed.changes, changed.kinds, "sftp")
            return f"{text} ({conflicts})" if conflicts else text

        try:
            caller = await find_caller()
            _, present = await self._workspaces.read_tree(caller.room_id)
            merging = await MergingEdit.prepare(
                self._workspaces.blobs, present, made, caller.agent.name
            )
            await asyncio.to_thread(self._workspaces.blobs.sync)
            await self._workspaces.change(
                caller.with_verb("sftp", described), merging, notice, source="user_upload"
            )
        except NothingChanges:  # others have made the same changes
            pass
        except WorldError as error:
            log.warning("a burst of sftp was refused", reason=str(error), burst=described)
            tell(f"Not kept: you {described}. {error}")
            return
        if merging.result.kept:
            tell(f"Files {describe_conflicts(merging.result.kept)}.")

    def _finish(self) -> None:
        """Forget what was committed: it is in a version, or was refused."""
        self._committing = {}
        self.changed_at = {path: self.changed_at[path] for path in self._waiting}
        for sha256 in self._committing_held:
            self._workspaces.blobs.release(sha256)
        self._committing_held = []


def _describe(made: Mapping[str, PathChange]) -> str:
    """Return what a client has changed, whatever becomes of it."""
    before = {path: change.base for path, change in made.items() if change.base is not None}
    changes = {path: change.entry for path, change in made.items()}
    return describe_changes(changes, find_change_kinds(before, changes), "sftp")


def describe_conflicts(kept: Mapping[str, str]) -> str:
    """Return what became of files that others changed meanwhile; "" without any."""
    sentences = []
    others = [(path, name) for path, name in kept.items() if name]
    stayed = [path for path, name in kept.items() if not name]
    if others:
        pairs = [f"{shorten_name(name)} beside {shorten_name(path)}" for path, name in others]
        sentences.append(f"changed by others meanwhile, both kept: {join_with_rest(pairs, 3)}")
    if stayed:
        names = join_with_rest([shorten_name(path) for path in stayed], 3)
        sentences.append(f"changed by others meanwhile, so not removed: {names}")
    return "; ".join(sentences)
