"""The group `/mem`, and what its verbs share: whose memory, and who may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from sqlalchemy import Connection

from sshwarma.services import services_of
from sshwarma.verbs.mem_access import check_member, check_membership
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import format_count
from sshwarma.world import memory, projects
from sshwarma.world.access import Right, read_members
from sshwarma.world.caller import Caller
from sshwarma.world.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    WorldError,
)
from sshwarma.world.memory import WriteOutcome
from sshwarma.world.projects import ProjectPath
from sshwarma.world.reader import NextCall, next_call
from sshwarma.world.store import Change
from sshwarma.world.stubs import read_stub
from sshwarma.world.thing_size import check_thing_size

T = TypeVar("T")

EDIT_TRIES: Final = 5
"""How often an edit is made again because the value has changed meanwhile."""

NAMESPACE: Final = "memory"
"""The namespace of the tools for memories."""

mem = group(
    "mem",
    section="Remembering",
    default="show",
    first_words={
        "project": "Texts that all rooms of the project share",
        "session": "Texts of this room",
    },
    doc="""Show and change the memory of this room and of its project.

    A memory has texts by key. That of a project is shared by all rooms that use the project, which
    is the directory where the server was started, unless its settings say that each room uses its
    own. The memory of a room, session memory, is for that room alone.
    """,
)


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory: that of a project, or of a room.

    Attributes:
        project: the project; None for the memory of a room.
        room_id: where the caller stands.
        is_new_project: whether nothing was stored yet for a project that is not the room's.
    """

    project: ProjectPath | None
    room_id: str
    is_new_project: bool = False

    @property
    def label(self) -> str:
        """Its name in sentences."""
        if self.project is None:
            return "session memory"
        return f"project memory of {self.given}" if self.given else "project memory"

    @property
    def given(self) -> str:
        """Its project as the caller named it; "" for that of the room, or session memory."""
        return "" if self.project is None else self.project.given

    @property
    def shown_project(self) -> str | None:
        """The path of its project for results; None for session memory.

        As it was given, unless the caller uses that project: where links of the server lead is not
        for everybody.
        """
        if self.project is None:
            return None
        return self.project.given if self.is_new_project else self.project.path

    def find_scope(self, conn: Connection) -> str | None:
        """Return the id of its container; None if nothing was stored in it."""
        if self.project is None:
            container = memory.find_session_container(conn, self.room_id)
        else:
            container = projects.find_project(conn, self.project.path)
        return None if container is None else container.id

    def open_scope(self, tx: Change, caller: Caller) -> str:
        """Return the id of its container, which is created if it is missing.

        Raises:
            Forbidden: if the caller may not change that project, which somebody may have made, or
                left, since it was asked for.
        """
        if self.project is None:
            return memory.get_or_create_session_container(tx, self.room_id).id
        known = projects.find_project(tx.conn, self.project.path)
        if known is not None:
            if not self.project.is_default:
                check_member(caller, self.project, read_members(tx.conn, known.id), Right.TALK)
            return known.id
        is_of_room = self.project.is_default
        if not is_of_room and services_of(caller).projects.is_used_in(tx.conn, self.project.path):
            check_member(caller, self.project, {}, Right.TALK)  # of admins, who own nothing by it
            is_of_room = True
        # Who names a project that does not exist yet owns it, unless it is that of a room.
        owner_id = None if is_of_room else caller.person_id or caller.agent.id
        return projects.create_project(
            tx, self.project.path, owner_id=owner_id, created_by=caller.agent.id
        ).id

    @property
    def session_room_id(self) -> str | None:
        """The room whose memory it is; None for that of a project."""
        return self.room_id if self.project is None else None

    def check_changeable(self, key: str) -> None:
        """Raise Invalid unless the key can be one of its own, and not of a row."""
        memory.check_key(key)
        if self.project is None:
            memory.check_not_stub(key)

    def read_row_text(self, conn: Connection, key: str) -> str | None:
        """Return the row of the log that a key such as `stubs.42` names, if it does."""
        return read_stub(conn, self.room_id, key) if self.project is None else None

    def call_for_key(self, sentence: str, action: str, key: str) -> NextCall:
        """Return a sentence with the call of an action on one of its keys."""
        verb = f"mem {'session' if self.project is None else 'project'} {action}"
        return next_call(sentence, verb, key=key, **({"project": self.given} if self.given else {}))

    def missing_error(self, key: str) -> NotFound:
        """Return the refusal of a key that is not there."""
        return NotFound(describe_missing(self, key))


def describe_missing(place: Memory, key: str) -> str:
    """Return the sentence about a key that is not there."""
    return f'The key "{key}" was not found in {place.label}.'


async def find_memory(
    caller: Caller, project: str | None = None, *, of_project: bool = True, writes: bool = False
) -> Memory:
    """Return the memory of a project or of the caller's room, if it may use it.

    The verb's own rights are for the room and its project; another project needs membership.

    Args:
        caller: who wants it.
        project: a path; None for the project of the room.
        of_project: whether it is that of a project.
        writes: whether the caller will change it.

    Raises:
        Forbidden: if the caller, or the person whom it answers, is not a member of the project.
        Invalid: if the project cannot be a path.
    """
    if not of_project:
        return Memory(None, caller.room_id)
    path = await services_of(caller).projects.find(caller.room_id, project)
    if path.is_default:
        return Memory(path, caller.room_id)
    if caller.is_of_script:
        # Its author may be somebody else, who is no member and reads what it does with the value.
        raise Forbidden(
            "A script uses the project of the room alone.",
            hint="Call the tool itself for another project.",
        )
    exists = await check_membership(caller, path, writes=writes)
    return Memory(path, caller.room_id, is_new_project=not exists)


async def read_memory(
    caller: Caller, place: Memory, read: Callable[[Connection, str | None], T]
) -> T:
    """Return what a function reads in a memory, by the id of its container."""
    return await caller.world.store.read(lambda conn: read(conn, place.find_scope(conn)))


async def read_text(caller: Caller, place: Memory, key: str) -> str:
    """Return the value of a key.

    Raises:
        NotFound: if it is not there.
    """
    memory.check_key(key)
    return await read_memory(caller, place, lambda conn, scope: need_text(conn, place, scope, key))


async def read_session_text(caller: Caller, key: str) -> str:
    """Return the value of a key of session memory.

    Raises:
        NotFound: if it is not there.
    """
    return await read_text(caller, await find_memory(caller, of_project=False), key)


def need_text(conn: Connection, place: Memory, scope_id: str | None, key: str) -> str:
    """Return the value of a key; of `stubs.42` in session memory, row 42 of the log.

    Raises:
        NotFound: if it is not there.
    """
    value = memory.find_value(conn, scope_id, key)
    if value is not None:
        return value.content or ""
    text = place.read_row_text(conn, key)
    if text is None:
        raise place.missing_error(key)
    return text


async def change_memory(
    caller: Caller,
    place: Memory,
    work: Callable[[Change, str], T],
    notice: str = "",
    *,
    size: int = 0,
) -> T:
    """Change a memory in one transaction.

    The room sees the notice, unless a tool call makes the change.

    Args:
        caller: who makes it.
        place: the memory.
        work: makes it, in the container that it gets.
        notice: what the room sees.
        size: bytes of text that are stored, which count if they are.

    Raises:
        RateLimited: if the caller has stored too much text.
        Forbidden: if it may not change that project now.
    """
    is_shown = caller.call_stack is None and (place.project is None or place.project.is_default)

    def change(tx: Change) -> T:
        done = work(tx, place.open_scope(tx, caller))
        if notice and is_shown and done not in ("unchanged", False):
            caller.append_notice(tx, notice)
        return done

    caller.charge_text_volume(size)
    try:
        return await caller.change(change)
    except WorldError:
        caller.charge_text_volume(-size, is_stored=True)
        raise


async def store_text(caller: Caller, place: Memory, key: str, value: str) -> WriteOutcome:
    """Set the value of a key; return what that was for the key.

    Raises:
        Invalid: if the key cannot be one, or the value is too long.
        RateLimited: if the caller has stored too much text.
    """
    memory.check_key(key)
    check_size(caller, value)

    def work(tx: Change, scope_id: str) -> WriteOutcome:
        return write_value(tx, place, scope_id, key, value, caller)

    notice = f'set the key "{key}" of {place.label}'
    return await change_memory(caller, place, work, notice, size=len(value.encode()))


def describe_stored(outcome: WriteOutcome, key: str, value: str, label: str) -> str:
    """Return the sentence about a value that was set."""
    if outcome == "unchanged":
        return f'"{key}" has that value in {label} already.'
    done = "Stored" if outcome == "new" else "Changed"
    return f'{done} "{key}" in {label} ({format_count(len(value), "character")}).'


def write_value(
    tx: Change, place: Memory, scope_id: str, key: str, value: str, caller: Caller
) -> WriteOutcome:
    """Set the value of a key in a change; return what that was for the key."""
    return memory.write_value(
        tx, scope_id, key, value, author_id=caller.agent.id, room_id=place.session_room_id
    )


async def delete_key(caller: Caller, place: Memory, key: str) -> None:
    """Delete a key.

    Raises:
        NotFound: if it is not there.
        Invalid: if it names a row of the log.
    """
    memory.check_key(key)

    def work(tx: Change, scope_id: str) -> None:
        if not delete_value(tx, place, scope_id, key, caller):
            raise place.missing_error(key)

    await change_memory(caller, place, work, f'deleted the key "{key}" of {place.label}')


def delete_value(tx: Change, place: Memory, scope_id: str, key: str, caller: Caller) -> bool:
    """Delete a key in a change; return whether it was there."""
    return memory.delete_value(
        tx, scope_id, key, author_id=caller.agent.id, room_id=place.session_room_id
    )


async def edit_text(
    caller: Caller,
    place: Memory,
    key: str,
    edit: Callable[[str], str],
    *,
    missing: str | None = None,
) -> tuple[str, str]:
    """Replace the value of a key by what a function makes of it; return both.

    The function is run in a thread, and again if the value changes meanwhile. `missing` stands for
    the value of a key that is not there.

    Raises:
        NotFound: if the key is not there, and `missing` is not given.
        Invalid: if the new value is too long.
        Conflict: if the value changes again and again.
    """
    place.check_changeable(key)

    def read(conn: Connection, scope_id: str | None) -> str:
        value = memory.find_value(conn, scope_id, key)
        if value is None and missing is None:
            raise place.missing_error(key)
        return (value.content if value is not None else missing) or ""

    for _ in range(EDIT_TRIES):
        old = await read_memory(caller, place, read)
        new = await asyncio.to_thread(edit, old)  # it may have a million lines
        check_size(caller, new)

        def work(tx: Change, scope_id: str, old: str = old, new: str = new) -> bool:
            if read(tx.conn, scope_id) != old:
                return False
            write_value(tx, place, scope_id, key, new, caller)
            return True

        notice = f'changed "{key}" of {place.label}'
        size = len(new.encode())
        if await change_memory(caller, place, work, notice, size=size):
            return old, new
        caller.charge_text_volume(-size, is_stored=True)
    raise Conflict(f'"{key}" is being changed by others.', hint="Try again.")


def check_size(caller: Caller, value: str) -> None:
    """Raise Invalid if a value is longer than a thing may be, or is no text."""
    if "\0" in value:
        raise Invalid("value: has a NUL character, which a text cannot have.")
    check_thing_size(caller.limits, value, "value")


def require_one(caller: Caller, key: str, value: str | None, other: str | None) -> None:
    """Raise Invalid unless a call gives a value or a key, and not both."""
    if (value is None) != (other is None):
        return
    problem = ", not both" if value is not None else ": neither is given"
    if not caller.reader.is_person:
        raise Invalid(f"Give either value or from_session_key{problem}.")
    typed = key.partition("=")
    hint = f"Put spaces around =: {typed[0]} = {typed[2]}" if typed[1] and value is None else ""
    raise Invalid(f"Give either a text or the key to copy from{problem}.", hint=hint)
