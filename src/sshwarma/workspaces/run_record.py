"""The record of a call that works on files: its wait, and the versions around it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import structlog

from sshwarma.workspaces import manifests
from sshwarma.workspaces.change_kinds import ChangeKind
from sshwarma.workspaces.change_notice import describe_changes
from sshwarma.workspaces.tree import Changes, Tree
from sshwarma.workspaces.workspace import Workspaces
from sshwarma.world import calls
from sshwarma.world.call_stack import CallRun
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError
from sshwarma.world.events import FilesChanged
from sshwarma.world.store import Change

log = structlog.get_logger(__name__)


class Wait:
    """The wait of a call for its turn, before the time that it runs."""

    def __init__(self, run: CallRun | None) -> None:
        """Begin to wait; without a run, nothing is counted."""
        self._run = run
        self._since = time.monotonic()

    def end(self) -> None:
        """Count the wait, once: the turn has come, or the call was stopped."""
        if self._run is not None:
            self._run.waited += time.monotonic() - self._since
        self._run = None


async def begin_wait(caller: Caller, *, is_busy: bool) -> Wait:
    """Begin to wait for a turn, and record that, if others are before the call."""
    if not is_busy or caller.call_stack is None:
        return Wait(None)
    wait = Wait(caller.call_stack.run)
    if (call_id := _find_call(caller)) is not None:
        await caller.world.change(lambda tx: calls.set_call_status(tx, call_id, "pending"))
    return wait


async def begin_run(caller: Caller, workspaces: Workspaces) -> tuple[str | None, Tree]:
    """Return the version of a room's files from which a run begins, and its entries.

    The record of the call has it from now on, also after a crash. A room that has no version yet
    gets an empty one for that. A command of a person has no record.
    """
    room_id, call_id = caller.room_id, _find_call(caller)
    if call_id is None:
        return await workspaces.read_tree(room_id)

    def work(tx: Change) -> tuple[str, Tree]:
        active_id, tree = workspaces.get_active(tx.conn, room_id)
        if active_id is None:
            active_id = manifests.append_beginning(tx, room_id, call_id, caller.agent.id).id
            tx.publish_on_commit(FilesChanged(room_id, active_id))
        calls.record_run_start(tx, call_id, active_id)
        return active_id, tree

    return await caller.world.change(work)


async def note_changes(caller: Caller, changes: Changes, kinds: Mapping[str, ChangeKind]) -> None:
    """Note with a call what its run has changed, for the row of its result."""
    if caller.call_stack is not None:  # in a thread: they may be thousands
        described = await asyncio.to_thread(describe_changes, changes, kinds)
        caller.call_stack.run.changes = described


async def record_no_change(caller: Caller, before_id: str | None) -> None:
    """Record the version after a run that has changed nothing: the present one.

    `before_id` is that of `begin_run`, for a room that was given the state without any.
    """
    if (call_id := _find_call(caller)) is None or before_id is None:
        return

    def work(tx: Change) -> None:
        after_id = manifests.read_active_id(tx.conn, caller.room_id) or before_id
        calls.record_manifests(tx, call_id, None, before_id, after_id)

    try:
        await caller.world.change(work)
    except WorldError as error:  # the result of the run counts
        log.warning("the version after a call was not recorded", reason=str(error))


def _find_call(caller: Caller) -> str | None:
    """Return the id of the recorded call that makes a run."""
    return caller.call_stack.row_id if caller.call_stack is not None else None
