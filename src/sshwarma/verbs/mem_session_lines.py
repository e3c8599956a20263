"""The verbs of `/mem session` on parts of a value."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from sshwarma.common import indentation, lines, unified_diff
from sshwarma.common.limits import MAX_DELIMITER_CHARACTERS, MAX_EXACT_INTEGER
from sshwarma.common.unified_diff import DiffError, Patched
from sshwarma.verbs.arguments import Arg, Flag, TextAfterEquals, Word
from sshwarma.verbs.file_arguments import LineNumber
from sshwarma.verbs.mem import NAMESPACE, edit_text, find_memory, mem, read_session_text
from sshwarma.verbs.mem_keys import SessionKey
from sshwarma.verbs.mem_views import MemoryText
from sshwarma.verbs.rights import MEMORY_RIGHT
from sshwarma.verbs.views import Confirmation, format_count
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid, too_long_error

MAX_TAB_SPACES = 16

Character: TypeAlias = Annotated[int, Arg("number"), Field(ge=0, le=MAX_EXACT_INTEGER)]
TabSpaces: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_TAB_SPACES)]


def _line_error(name: str, key: str, count: int, got: int) -> Invalid:
    return Invalid(f'{name}: "{key}" has {format_count(count, "line")} (got {got}).')


def _check_range(start: int | None, end: int | None, unit: str) -> None:
    if start is not None and end is not None and end < start:
        raise Invalid(f"end_{unit}: must not be less than start_{unit} (got {end} and {start}).")


@mem.verb(
    "session lines",
    needs=Right.ENTER,
    tool="session_memory_read_lines",
    mcp_tool="session_memory_read_lines",
    leave_out="SHORT 500",
    namespace=NAMESPACE,
    examples=("/mem session lines draft 10 20", "/mem session lines draft 10 --number-lines"),
)
async def read_session_lines(
    caller: Caller,
    key: SessionKey,
    start_line: LineNumber | None = None,
    end_line: LineNumber | None = None,
    *,
    number_lines: Flag = False,
    delimiter: Word | None = None,
) -> MemoryText:
    """Read lines of a value in session memory.

    A key such as stubs.42, which the mark at a cut names, is row 42 of the room's log.

    Args:
        key: the key.
        start_line: number of the first line, from 1 (default: 1).
        end_line: number of the last line (default: the last of all).
        number_lines: begin each line with its number.
        delimiter: what stands between the number and the line (default: a bar between spaces).
    """
    text = await read_session_text(caller, key)
    _check_range(start_line, end_line, "line")
    if len(delimiter or "") > MAX_DELIMITER_CHARACTERS:
        raise too_long_error("delimiter", len(delimiter or ""), MAX_DELIMITER_CHARACTERS)
    first = start_line or 1

    def cut() -> str:
        part = lines.read_line_range(text, first, end_line)
        if not number_lines:
            return part
        separator = " | " if delimiter is None else delimiter
        return lines.number_text_lines(part, first, separator)

    part = await asyncio.to_thread(cut)
    if not part and first > 1:
        count = await asyncio.to_thread(lines.count_text_lines, text)
        if first > count:
            raise _line_error("start_line", key, count, first)
    return MemoryText(key, part, is_part=True)


@mem.verb(
    "session chars",
    needs=Right.ENTER,
    tool="session_memory_read_char_range",
    mcp_tool="session_memory_read_char_range",
    leave_out="SHORT 500",
    namespace=NAMESPACE,
    examples=("/mem session chars draft 0 500",),
)
async def read_session_characters(
    caller: Caller,
    key: SessionKey,
    start_char: Character | None = None,
    end_char: Character | None = None,
) -> MemoryText:
    """Read a range of characters of a value in session memory.

    A key such as stubs.42, which the mark at a cut names, is row 42 of the room's log.

    Args:
        key: the key.
        start_char: index of the first character, from 0 (default: 0).
        end_char: index behind the last one (default: the end of the value).
    """
    text = await read_session_text(caller, key)
    _check_range(start_char, end_char, "char")
    if (start_char or 0) > len(text):
        count = format_count(len(text), "character")
        raise Invalid(f'start_char: "{key}" has {count} (got {start_char}).')
    return MemoryText(key, text[start_char:end_char], is_part=True)


@mem.verb(
    "session insert",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_insert_lines",
    mcp_tool="session_memory_insert_lines",
    leave_out="PARAMS_ONLY",
    takes_exact_text=True,
    namespace=NAMESPACE,
    examples=("/mem session insert draft 1 = A new first line.",),
)
async def insert_session_lines(
    caller: Caller, key: SessionKey, before_line: LineNumber, text: TextAfterEquals
) -> Confirmation:
    """Insert lines into a value in session memory.

    Args:
        key: the key.
        before_line: number of the line to insert before; one after the last to append.
        text: the lines; the end of the last one is added if it is missing.
    """
    place = await find_memory(caller, of_project=False)

    def insert(value: str) -> str:
        if before_line > (count := lines.count_text_lines(value)) + 1:
            raise _line_error("before_line", key, count, before_line)
        return lines.insert_before_line(value, before_line, text)

    old, _ = await edit_text(caller, place, key, insert)
    count = format_count(lines.count_text_lines(text), "line")
    is_inside = before_line <= await asyncio.to_thread(lines.count_text_lines, old)
    where = f"before line {before_line}" if is_inside else "at the end"
    return Confirmation(f'Inserted {count} {where} of "{key}".')


@mem.verb(
    "session replace",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_replace_lines",
    mcp_tool="session_memory_replace_lines",
    leave_out="PARAMS_ONLY",
    takes_exact_text=True,
    namespace=NAMESPACE,
    examples=("/mem session replace draft 3 5 = One line for three.",),
)
async def replace_session_lines(
    caller: Caller,
    key: SessionKey,
    start_line: LineNumber,
    end_line: LineNumber,
    text: TextAfterEquals,
) -> Confirmation:
    """Replace lines of a value in session memory.

    Args:
        key: the key.
        start_line: number of the first line to replace, from 1.
        end_line: number of the last line to replace.
        text: the new lines; the end of the last one is added if it is missing.
    """
    count = format_count(lines.count_text_lines(text), "line")
    done = await _replace(caller, key, start_line, end_line, text)
    return Confirmation(f'Replaced {done} of "{key}" by {count}.')


@mem.verb(
    "session cut",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_delete_lines",
    mcp_tool="session_memory_delete_lines",
    leave_out="PARAMS_ONLY",
    namespace=NAMESPACE,
    examples=("/mem session cut draft 3 5",),
)
async def delete_session_lines(
    caller: Caller, key: SessionKey, start_line: LineNumber, end_line: LineNumber
) -> Confirmation:
    """Delete lines of a value in session memory.

    Args:
        key: the key.
        start_line: number of the first line to delete, from 1.
        end_line: number of the last line to delete.
    """
    done = await _replace(caller, key, start_line, end_line, "")
    return Confirmation(f'Deleted {done} of "{key}".')


async def _replace(caller: Caller, key: str, first: int, last: int, text: str) -> str:
    """Replace lines of a value; return which, in words."""
    _check_range(first, last, "line")
    place = await find_memory(caller, of_project=False)

    def edit(value: str) -> str:
        try:
            return lines.replace_line_range(value, first, last, text)
        except IndexError:
            count = format_count(lines.count_text_lines(value), "line")
            raise Invalid(f'start_line: "{key}" has {count} (got {first}).') from None

    old, _ = await edit_text(caller, place, key, edit)
    last = min(last, await asyncio.to_thread(lines.count_text_lines, old))
    return f"line {first}" if first == last else f"lines {first} to {last}"


@mem.verb(
    "session patch",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_apply_patch",
    mcp_tool="session_memory_apply_patch",
    leave_out="KEEP",
    takes_exact_text=True,
    namespace=NAMESPACE,
    examples=("/mem session patch draft = @@ -1 +1 @@",),
)
async def patch_session_value(
    caller: Caller, key: SessionKey, patch: TextAfterEquals
) -> Confirmation:
    """Apply a unified diff to a value in session memory, all of it or nothing.

    A hunk whose lines have moved is found at the nearest place. The ends of lines stay those of the
    value.

    Args:
        key: the key.
        patch: the diff, as diff -u writes it, with hunks that begin like @@ -1,3 +1,4 @@.
    """
    place = await find_memory(caller, of_project=False)
    done: list[Patched] = []

    def edit(value: str) -> str:
        try:
            done.append(unified_diff.apply_unified_diff(value, patch))
        except DiffError as error:
            raise Conflict(f"patch: {error}.", hint="Nothing was changed.") from error
        return done[-1].text

    await edit_text(caller, place, key, edit)
    moves = [f"hunk {number} by {by:+d} lines" for number, by in done[-1].moves]
    note = f" Found elsewhere: {', '.join(moves)}." if moves else ""
    return Confirmation(f'Applied {format_count(done[-1].hunks, "hunk")} to "{key}".{note}')


@mem.verb(
    "session length",
    needs=Right.ENTER,
    tool="session_memory_count_chars",
    mcp_tool="session_memory_count_chars",
    leave_out="OMIT",
    namespace=NAMESPACE,
    examples=("/mem session length draft",),
)
async def count_session_characters(caller: Caller, key: SessionKey) -> MemoryText:
    """Count the characters of a value in session memory.

    Args:
        key: the key.
    """
    return MemoryText(key, str(len(await read_session_text(caller, key))))


@mem.verb(
    "session count",
    needs=Right.ENTER,
    tool="session_memory_count_lines",
    mcp_tool="session_memory_count_lines",
    leave_out="OMIT",
    namespace=NAMESPACE,
    examples=("/mem session count draft",),
)
async def count_session_lines(caller: Caller, key: SessionKey) -> MemoryText:
    """Count the lines of a value in session memory.

    Args:
        key: the key.
    """
    count = await asyncio.to_thread(lines.count_text_lines, await read_session_text(caller, key))
    return MemoryText(key, str(count))


@mem.verb(
    "session eol",
    needs=Right.ENTER,
    tool="session_memory_check_eol",
    mcp_tool="session_memory_check_eol",
    leave_out="KEEP",
    namespace=NAMESPACE,
    examples=("/mem session eol draft",),
)
async def check_session_line_ends(caller: Caller, key: SessionKey) -> MemoryText:
    """Count the line ends of a value in session memory, by kind: LF, CRLF, CR.

    Args:
        key: the key.
    """
    text = await read_session_text(caller, key)
    return MemoryText(key, await asyncio.to_thread(indentation.describe_line_ends, text))


@mem.verb(
    "session normalize",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_normalize_eol",
    mcp_tool="session_memory_normalize_eol",
    leave_out="PARAMS_ONLY",
    namespace=NAMESPACE,
    examples=("/mem session normalize draft lf",),
)
async def convert_session_line_ends(
    caller: Caller, key: SessionKey, eol: Literal["lf", "crlf", "cr"]
) -> Confirmation:
    """Make all line ends of a value in session memory alike.

    Args:
        key: the key.
        eol: the line end: lf, crlf or cr.
    """
    place = await find_memory(caller, of_project=False)
    await edit_text(caller, place, key, lambda value: indentation.convert_line_ends(value, eol))
    return Confirmation(f'All line ends of "{key}" are {eol.upper()} now.')


@mem.verb(
    "session indent",
    needs=Right.ENTER,
    tool="session_memory_check_indentation",
    mcp_tool="session_memory_check_indentation",
    leave_out="KEEP",
    namespace=NAMESPACE,
    examples=("/mem session indent draft",),
)
async def check_session_indentation(caller: Caller, key: SessionKey) -> MemoryText:
    """Describe how the lines of a value in session memory are indented.

    Args:
        key: the key.
    """
    text = await read_session_text(caller, key)
    return MemoryText(key, await asyncio.to_thread(indentation.describe_indentation, text))


@mem.verb(
    "session reindent",
    needs=Right.TALK,
    also_needs=(MEMORY_RIGHT,),
    tool="session_memory_convert_indentation",
    mcp_tool="session_memory_convert_indentation",
    leave_out="PARAMS_ONLY",
    namespace=NAMESPACE,
    examples=("/mem session reindent draft spaces", "/mem session reindent draft tabs"),
)
async def convert_session_indentation(
    caller: Caller,
    key: SessionKey,
    to: Literal["tabs", "spaces"],
    *,
    spaces_per_tab: TabSpaces = 4,
) -> Confirmation:
    """Indent the lines of a value in session memory by tabs or by spaces.

    Args:
        key: the key.
        to: tabs or spaces.
        spaces_per_tab: how many spaces a tab is.
    """
    place = await find_memory(caller, of_project=False)
    old, new = await edit_text(
        caller,
        place,
        key,
        lambda value: indentation.convert_indentation(value, to, spaces_per_tab),
    )
    if old == new:
        return Confirmation(f'Nothing of "{key}" had to be indented by {to}.')
    return Confirmation(f'The lines of "{key}" are indented by {to} now.')
