"""The session data of calls of plugins: memory, and the pinned project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_PLUGIN_MEMORY_BYTES, MAX_PLUGIN_MEMORY_CHANGES
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_name, shorten_text
from sshwarma.common.units import MIB
from sshwarma.terminal.escape import escape_lines
from sshwarma.tools.provider import ToolResult
from sshwarma.toolsets.plugin_records import SESSION_KEY
from sshwarma.toolsets.worker_process import WorkerAnswer
from sshwarma.world import memory, things
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, Unavailable, WorldError
from sshwarma.world.projects import ProjectPaths
from sshwarma.world.store import Change
from sshwarma.world.thing_size import check_thing_size
from sshwarma.world.things import Thing
from sshwarma.world.tool_names import PLUGIN_NAME_KEY
from sshwarma.world.world import World


@dataclass(frozen=True, slots=True)
class MemoryChanges:
    """What a call has changed of the session memory.

    Attributes:
        values: new ones, by their keys.
        deleted: keys that are gone.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed."""
        return not (self.values or self.deleted)


class RoomSessions:
    """The session data of calls of plugins, by the room in which they are made."""

    def __init__(self, world: World) -> None:
        """Use the memories of a world, without projects."""
        self._world = world
        self.projects: ProjectPaths | None = None
        self.show_tracebacks = False

    async def begin(self, caller: Caller, tool: Thing) -> dict[str, Any]:
        """Return the parameters that only calls of plugins get; none for others.

        The pinned project is in them alone: no row and no log has it.

        Raises:
            Unavailable: if the session memory is too large to be given to a tool.
        """
        if PLUGIN_NAME_KEY not in tool.metadata:
            return {}
        memory_values: dict[str, str] = {}
        if tool.metadata.get(SESSION_KEY):
            room_id = caller.room_id
            memory_values = await self._world.store.read(lambda conn: _read_values(conn, room_id))
        pinned = None if self.projects is None else self.projects.pinned_project
        return {
            "session": {
                "memory": memory_values,
                "pinned_project": pinned,
                "show_tracebacks": self.show_tracebacks,
            }
        }

    async def end(
        self,
        caller: Caller,
        tool: Thing,
        session: Mapping[str, Any],
        answer: WorkerAnswer,
        result: ToolResult,
    ) -> ToolResult:
        """Store what a call has changed of the session memory; return its result.

        It is an error if that cannot be stored: what it says that it wrote is not there.

        Args:
            caller: who called.
            tool: the tool.
            session: what `begin` returned for the call.
            answer: of its worker.
            result: of the call until now.
        """
        if not tool.metadata.get(SESSION_KEY):
            return result
        try:
            changes = read_changes(answer)
            if not changes.is_empty:
                before: Mapping[str, str] = session["session"]["memory"]
                await _store_changes(caller, tool, before, changes)
        except WorldError as error:
            reason = error.text_for(caller.reader)
            note = f"Its changes of the session memory were not stored: {reason}"
            return replace(result, text=f"{result.text}\n{note}".lstrip(), is_error=True)
        return result


def _read_values(conn: Connection, room_id: str) -> dict[str, str]:
    """Return the session memory of a room.

    Raises:
        Unavailable: if it is too large to be given to a tool.
    """
    container = memory.find_session_container(conn, room_id)
    if container is None:
        return {}
    entries = memory.list_keys(conn, container.id, described=None).entries
    if sum(entry.size for entry in entries) > MAX_PLUGIN_MEMORY_BYTES:
        limit = f"{MAX_PLUGIN_MEMORY_BYTES // MIB} MiB"
        raise Unavailable(
            f"{with_limit('The session memory of this room is too large for a plugin', limit)}.",
            hint="Delete values that nobody needs.",
        )
    return {one.name: one.content or "" for one in things.read_children(conn, container.id, "data")}


async def _store_changes(
    caller: Caller, tool: Thing, before: Mapping[str, str], changes: MemoryChanges
) -> None:
    """Store changes of the session memory, all in one transaction.

    Raises:
        Invalid: if a key cannot be one, or a value is too long.
        Conflict: if there are too many keys, or one has another value than before the call, which
            then stays.
        RateLimited: if the caller has stored too much text.
    """
    count = len(changes.values) + len(changes.deleted)
    if count > MAX_PLUGIN_MEMORY_CHANGES:
        raise Invalid(
            f"A call changes at most {MAX_PLUGIN_MEMORY_CHANGES} keys (got {count}).",
            hint="Keep many values in one text.",
        )
    await caller.as_present()  # the call may have lasted, and who made it be muted
    for key, value in changes.values.items():
        memory.check_key(key)
        if "\0" in value:
            raise Invalid(f"The value of {shorten_name(key)} has a NUL character.")
        check_thing_size(caller.limits, value, f"the value of {key}")
    volume = sum(len(value.encode()) for value in changes.values.values())
    caller.charge_text_volume(volume)
    room_id, author_id = caller.room_id, caller.agent.id

    def work(tx: Change) -> None:
        scope_id = memory.get_or_create_session_container(tx, room_id).id
        _check_unchanged(tx.conn, scope_id, before, changes)
        for key in changes.deleted:
            memory.delete_value(tx, scope_id, key, author_id=author_id, room_id=room_id)
        for key, value in changes.values.items():
            memory.write_value(tx, scope_id, key, value, author_id=author_id, room_id=room_id)

    try:
        await caller.with_verb("run", tool.label).change(work)
    except WorldError:
        caller.charge_text_volume(-volume, is_stored=True)
        raise


def _check_unchanged(
    conn: Connection, scope_id: str, before: Mapping[str, str], changes: MemoryChanges
) -> None:
    """Raise Conflict if others have changed what a call changes since it began.

    Raises:
        Conflict: then, naming the key: what the call computed is of the value before.
    """
    for key, wanted in {**dict.fromkeys(changes.deleted), **changes.values}.items():
        value = memory.find_value(conn, scope_id, key)
        present = None if value is None else value.content or ""
        if present not in (before.get(key), wanted):
            did = "deleted" if present is None else "changed" if key in before else "set"
            raise Conflict(
                f"The value of {shorten_name(key)} was {did} by another during the call, and stays"
                " so.",
                hint="Call the tool again: it gets the present values.",
            )


def read_changes(answer: WorkerAnswer) -> MemoryChanges:
    """Return what a worker says that a call has changed; it may say anything.

    Raises:
        Invalid: if a key or a value is not text.
    """
    meta = answer.result.get("_meta")
    said = meta.get("memory") if isinstance(meta, dict) else None
    if not isinstance(said, dict):
        return MemoryChanges()
    if "problem" in said:
        raise Invalid(f"{escape_lines(shorten_text(str(said['problem']))).rstrip('.')}.")
    values, deleted = said.get("set"), said.get("delete")
    if not isinstance(values, dict) or not isinstance(deleted, list):
        raise Invalid("They are not valid.")
    if not all(isinstance(one, str) for one in (*values.values(), *deleted)):
        raise Invalid("A value is not text.")
    return MemoryChanges(values, tuple(deleted))
