"""The verbs of `/mem` that change a value in the line editor.

Such a line names the version that the editor was opened with, so that nobody overwrites what
another has stored meanwhile.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field
from sqlalchemy import Connection

from sshwarma.common.limits import MAX_EXACT_INTEGER
from sshwarma.verbs.arguments import Arg, Flag, TextAfterEquals
from sshwarma.verbs.edit_draft import TAB_SIGN, EditDraft, hide_tabs, make_edit_draft
from sshwarma.verbs.mem import (
    Memory,
    change_memory,
    check_size,
    describe_stored,
    find_memory,
    mem,
    read_memory,
    write_value,
)
from sshwarma.verbs.mem_keys import ProjectKey, ProjectName, SessionKey
from sshwarma.verbs.rights import MEMORY_RIGHT, NEW_PROJECT_RIGHT
from sshwarma.verbs.verb import quote_word
from sshwarma.verbs.views import Confirmation
from sshwarma.world import memory, text_history
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.memory import WriteOutcome
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

BaseVersion: TypeAlias = Annotated[int, Arg("number"), Field(ge=0, le=MAX_EXACT_INTEGER)]


@mem.verb(
    "project edit",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT, NEW_PROJECT_RIGHT),
    tool=False,
    ssh_only=True,
    in_console=True,
    takes_exact_text=True,
    examples=("/mem project edit plan", "/mem project edit plan --base 3 = Ship on Monday."),
)
async def edit_project_value(
    caller: Caller,
    key: ProjectKey,
    text: TextAfterEquals | None = None,
    *,
    project: ProjectName | None = None,
    base: BaseVersion | None = None,
    tabs: Flag = False,
    crlf: Flag = False,
) -> EditDraft | Confirmation:
    """Change a value of project memory in the line editor.

    A tab of the value is ␉ there. If somebody else changes the value meanwhile, nothing is stored.

    Args:
        key: the key; a new one starts empty.
        text: the new value; without it, the editor opens.
        project: path of another project (default: the project of this room).
        base: the version that the text was made from; 0 if there was no value.
        tabs: whether ␉ stands for a tab.
        crlf: whether lines end as on Windows.
    """
    place = await find_memory(caller, project, writes=True)
    if place.is_new_project:
        await NEW_PROJECT_RIGHT.require(caller)
    flag = "" if project is None else f" --project {quote_word(project)}"
    if text is None:
        return await _open(caller, place, key, f"/mem project edit {quote_word(key)}{flag}")
    return await _store(caller, place, key, _restore_signs(text, tabs=tabs, crlf=crlf), base)


@mem.verb(
    "session edit",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool=False,
    ssh_only=True,
    in_console=True,
    takes_exact_text=True,
    examples=("/mem session edit draft", "/mem session edit draft --base 3 = Dear all,"),
)
async def edit_session_value(
    caller: Caller,
    key: SessionKey,
    text: TextAfterEquals | None = None,
    *,
    base: BaseVersion | None = None,
    tabs: Flag = False,
    crlf: Flag = False,
) -> EditDraft | Confirmation:
    """Change a value of session memory in the line editor.

    A tab of the value is ␉ there. If somebody else changes the value meanwhile, nothing is stored.

    Args:
        key: the key; a new one starts empty.
        text: the new value; without it, the editor opens.
        base: the version that the text was made from; 0 if there was no value.
        tabs: whether ␉ stands for a tab.
        crlf: whether lines end as on Windows.
    """
    place = await find_memory(caller, of_project=False)
    if text is None:
        return await _open(caller, place, key, f"/mem session edit {quote_word(key)}")
    return await _store(caller, place, key, _restore_signs(text, tabs=tabs, crlf=crlf), base)


async def _open(caller: Caller, place: Memory, key: str, start: str) -> EditDraft:
    """Return the draft of a value, whose line names its version."""
    place.check_changeable(key)

    def read(conn: Connection, scope_id: str | None) -> tuple[Thing | None, int]:
        value = memory.find_value(conn, scope_id, key)
        return value, text_history.read_present_version(conn, value)

    value, version = await read_memory(caller, place, read)
    text, signs = (value.content or "") if value is not None else "", ""
    if "\r\n" in text and text.count("\r\n") == text.count("\n") == text.count("\r"):
        text, signs = text.replace("\r\n", "\n"), " --crlf"
    text, tabs = hide_tabs(caller, text)
    line = f"{start} --base {version}"
    return make_edit_draft(caller, key, text, line, signs=signs + tabs, is_new=value is None)


def _restore_signs(text: str, *, tabs: bool, crlf: bool) -> str:
    """Return a text with the characters that the editor cannot keep."""
    if tabs:
        text = text.replace(TAB_SIGN, "\t")
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if crlf else text


async def _store(
    caller: Caller, place: Memory, key: str, text: str, base: int | None
) -> Confirmation:
    """Store a value that was made from a version.

    Raises:
        Invalid: if no version is given: words behind a key without quotes are no text.
        Conflict: if the value has another version now.
    """
    memory.check_key(key)
    if base is None:
        raise Invalid(
            "An edit with a text needs --base and the version that the text was made from.",
            hint="Without a text it opens the line editor; set replaces a value in any case.",
        )
    check_size(caller, text)

    def work(tx: Change, scope_id: str) -> WriteOutcome:
        value = memory.find_value(tx.conn, scope_id, key)
        version = text_history.read_present_version(tx.conn, value)
        if version != base and (value is None or value.content != text):
            raise _changed_error(caller, place, key, base, value)
        return write_value(tx, place, scope_id, key, text, caller)

    notice = f'set the key "{key}" of {place.label}'
    outcome = await change_memory(caller, place, work, notice, size=len(text.encode()))
    return Confirmation(describe_stored(outcome, key, text, place.label))


def _changed_error(
    caller: Caller, place: Memory, key: str, base: int, value: Thing | None
) -> Conflict:
    """Return the refusal of a text made from a version that others have replaced."""
    hint = "With set, in place of edit and --base, the text replaces it"
    if value is None:
        done = f'"{key}" was deleted since version {base}; nothing was stored.'
        return Conflict(done, hint="With --base 0 the text is stored again.")
    author_id = memory.get_author_id(value)
    who = caller.world.agents.name_of(author_id) if author_id else "somebody"
    return Conflict(
        f'"{key}" was set by {who} {f"since version {base}" if base else "meanwhile"}; nothing was'
        " stored.",
        hint=place.call_for_key(f"{{}} shows the value. {hint}.", "get", key),
    )
