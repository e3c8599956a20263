"""The verbs of `/mem` on earlier values."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from sqlalchemy import Connection

from sshwarma.common.limits import MAX_EXACT_INTEGER, MAX_KEPT_TEXTS
from sshwarma.common.times import format_iso
from sshwarma.terminal.text import Block, block
from sshwarma.verbs.arguments import Arg
from sshwarma.verbs.mem import Memory, change_memory, find_memory, mem, read_memory, write_value
from sshwarma.verbs.mem_keys import ProjectKey, ProjectName, SessionKey
from sshwarma.verbs.rights import MEMORY_RIGHT
from sshwarma.verbs.version_views import ValueVersionItem, draw_difference, draw_versions
from sshwarma.verbs.views import Confirmation, draw_hint, view, view_for_reader
from sshwarma.workspaces.text_diff import compare_contents
from sshwarma.world import memory, text_history
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.memory import WriteOutcome
from sshwarma.world.reader import Reader
from sshwarma.world.store import Change

ValueVersion: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_EXACT_INTEGER)]


@dataclass(frozen=True, slots=True)
class ValueHistory:
    """The values of a key that are kept, the newest first.

    `project` is the path of the project; None for session memory.
    """

    key: str
    project: str | None
    versions: tuple[ValueVersionItem, ...]
    given: Annotated[SkipJsonSchema[str], Field(exclude=True)] = ""  # the project, as it was named


@view_for_reader(ValueHistory)
def draw_value_history(result: ValueHistory, reader: Reader) -> Block:
    """Draw the values of a key: number, size, author, time."""
    lines = draw_versions(f"Values of {result.key}", result.versions)
    if len(result.versions) > 1:
        verb = "mem session diff" if result.project is None else "mem project diff"
        named = {"project": result.given} if result.given else {}
        lines += draw_hint(reader, "{} shows what changed.", verb, key=result.key, **named)
    return block(*lines)


@dataclass(frozen=True, slots=True)
class ValueDiff:
    """The difference between an earlier value of a key and the present one.

    `note` says why the `diff` is empty or cut.
    """

    key: str
    version: int
    diff: str
    note: str


@view(ValueDiff)
def draw_value_diff(result: ValueDiff) -> Block:
    """Draw the difference as a unified diff, in colour."""
    return draw_difference(result.key, result.version, result.diff, result.note)


@mem.verb("project history", needs=Right.ENTER, tool=False, examples=("/mem project history plan",))
async def list_project_values(
    caller: Caller, key: ProjectKey, *, project: ProjectName | None = None
) -> ValueHistory:
    """List the values that a key of project memory has had.

    At most {MAX_KEPT_TEXTS} earlier ones are kept.

    Args:
        key: the key, also one that was deleted.
        project: path of another project (default: the project of this room).
    """
    return await _list_values(caller, await find_memory(caller, project), key)


@mem.verb(
    "session history", needs=Right.ENTER, tool=False, examples=("/mem session history draft",)
)
async def list_session_values(caller: Caller, key: SessionKey) -> ValueHistory:
    """List the values that a key of session memory has had.

    At most {MAX_KEPT_TEXTS} earlier ones are kept.

    Args:
        key: the key, also one that was deleted.
    """
    return await _list_values(caller, await find_memory(caller, of_project=False), key)


@mem.verb(
    "project diff",
    needs=Right.ENTER,
    tool=False,
    examples=("/mem project diff plan", "/mem project diff plan 3"),
)
async def compare_project_values(
    caller: Caller,
    key: ProjectKey,
    version: ValueVersion | None = None,
    *,
    project: ProjectName | None = None,
) -> ValueDiff:
    """Compare an earlier value of a key of project memory with the present one.

    Args:
        key: the key.
        version: number of the earlier value (default: the last before the present one).
        project: path of another project (default: the project of this room).
    """
    return await _compare(caller, await find_memory(caller, project), key, version)


@mem.verb(
    "session diff",
    needs=Right.ENTER,
    tool=False,
    examples=("/mem session diff draft", "/mem session diff draft 3"),
)
async def compare_session_values(
    caller: Caller, key: SessionKey, version: ValueVersion | None = None
) -> ValueDiff:
    """Compare an earlier value of a key of session memory with the present one.

    Args:
        key: the key.
        version: number of the earlier value (default: the last before the present one).
    """
    return await _compare(caller, await find_memory(caller, of_project=False), key, version)


@mem.verb(
    "project restore",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool=False,
    examples=("/mem project restore plan", "/mem project restore plan 3"),
)
async def restore_project_value(
    caller: Caller,
    key: ProjectKey,
    version: ValueVersion | None = None,
    *,
    project: ProjectName | None = None,
) -> Confirmation:
    """Set a key of project memory to an earlier value, also after it was deleted.

    Args:
        key: the key.
        version: number of the value (default: the last before the present one).
        project: path of another project (default: the project of this room).
    """
    place = await find_memory(caller, project, writes=True)
    return await _restore(caller, place, key, version)


@mem.verb(
    "session restore",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool=False,
    examples=("/mem session restore draft", "/mem session restore draft 3"),
)
async def restore_session_value(
    caller: Caller, key: SessionKey, version: ValueVersion | None = None
) -> Confirmation:
    """Set a key of session memory to an earlier value, also after it was deleted.

    Args:
        key: the key.
        version: number of the value (default: the last before the present one).
    """
    place = await find_memory(caller, of_project=False)
    return await _restore(caller, place, key, version)


async def _list_values(caller: Caller, place: Memory, key: str) -> ValueHistory:
    memory.check_key(key)
    names = caller.world.agents.name_of

    def read(conn: Connection, scope_id: str | None) -> list[ValueVersionItem]:
        old = text_history.read_old_texts(conn, scope_id, key) if scope_id else []
        present = memory.find_value(conn, scope_id, key)
        items = [
            ValueVersionItem(
                one.version,
                one.size,
                names(one.author_id) if one.author_id else "",
                format_iso(one.set_at),
                f"{'deleted' if one.is_deleted else 'replaced'} by"
                f" {names(one.replaced_by) if one.replaced_by else 'the server'}",
            )
            for one in old
        ]
        if present is None:
            return items
        author_id = memory.get_author_id(present)
        now = ValueVersionItem(
            text_history.read_present_version(conn, present),
            len((present.content or "").encode()),
            names(author_id) if author_id else "",
            format_iso(present.updated_at),
            "",
        )
        return [now, *items]

    found = await read_memory(caller, place, read)
    if not found:
        raise place.missing_error(key)
    return ValueHistory(key, place.shown_project, tuple(found), place.given)


async def _compare(caller: Caller, place: Memory, key: str, version: int | None) -> ValueDiff:
    memory.check_key(key)

    def read(conn: Connection, scope_id: str | None) -> tuple[int, str, str]:
        number, old = _read_old(conn, place, scope_id, key, version)
        present = memory.find_value(conn, scope_id, key)
        return number, old, (present.content or "") if present else ""

    number, old, new = await read_memory(caller, place, read)
    diff = await asyncio.to_thread(compare_contents, old.encode(), new.encode())
    return ValueDiff(key, number, diff.text, diff.note)


async def _restore(caller: Caller, place: Memory, key: str, version: int | None) -> Confirmation:
    place.check_changeable(key)
    number, text = await read_memory(
        caller, place, lambda conn, scope: _read_old(conn, place, scope, key, version)
    )

    def work(tx: Change, scope_id: str) -> WriteOutcome:
        return write_value(tx, place, scope_id, key, text, caller)

    notice = f'restored the key "{key}" of {place.label}'
    outcome = await change_memory(caller, place, work, notice, size=len(text.encode()))
    if outcome == "unchanged":
        return Confirmation(f'"{key}" has the value of version {number} already.')
    action = "delete" if outcome == "new" else "restore"
    return Confirmation(
        f'"{key}" has the value of version {number} again.',
        next=place.call_for_key("{} takes it back.", action, key),
    )


def _read_old(
    conn: Connection, place: Memory, scope_id: str | None, key: str, version: int | None
) -> tuple[int, str]:
    """Return an earlier value with its number; the last one by default.

    Raises:
        NotFound: if it is not kept.
    """
    newest = text_history.read_newest_version(conn, scope_id, key) if scope_id else 0
    if not newest:
        if memory.find_value(conn, scope_id, key) is None:
            raise place.missing_error(key)
        raise NotFound(f'"{key}" has no earlier value in {place.label}.')
    number = version or newest
    text = text_history.read_old_text(conn, scope_id or "", key, number)
    if text is None:
        raise NotFound(
            f'Version {number} of "{key}" is not among the earlier values.',
            hint=f"At most {MAX_KEPT_TEXTS} are kept.",
        )
    return number, text
