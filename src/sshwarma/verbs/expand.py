"""The verb `expand`: the full text of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_MODEL_ROW_PART_CHARACTERS, MAX_ROW_PART_CHARACTERS
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Offset, RowNumber
from sshwarma.verbs.log_rows import unknown_row_error
from sshwarma.verbs.registry import verb
from sshwarma.verbs.render_views import draw_rendered_text
from sshwarma.verbs.rendered_file import load_content, read_content
from sshwarma.verbs.result_pages import add_page_problem
from sshwarma.verbs.views import format_count, view_for_reader
from sshwarma.world import calls, rows
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.reader import Reader
from sshwarma.world.row import Row


@dataclass(frozen=True, slots=True)
class ExpandedRow:
    """A part of a row's text.

    `left` characters follow it, from index `next`; None at the end. `render_plan` is how a page
    shows the result of a tool whose renderer says it, with `structured`, the result's value.
    `steps` are those of the call of a toolset, each with its time in milliseconds since 1970.
    `changes` is what the call changed of the files, in words.
    """

    seq: int
    kind: str
    who: str
    text: str
    left: int
    next: int | None
    render_plan: dict[str, Any] | None = None
    structured: Any = None
    steps: tuple[tuple[str, int], ...] = ()
    changes: str = ""


@view_for_reader(ExpandedRow)
def draw_expanded_row(result: ExpandedRow, reader: Reader) -> Block:
    """Draw a part of a row's text, and the line that shows the next part."""
    hint_lines = []
    if result.next is not None:
        hint = reader.hint(": {}", "expand", row=result.seq, start=result.next)
        hint_lines = [line(("dim", f"… {result.left} more{hint}"))]
    kind = f" {result.kind} · {result.changes}" if result.changes else f" {result.kind}"
    return block(
        line(("time", f"{result.seq} "), ("name", result.who), ("dim", kind)),
        *draw_rendered_text(result.text, result.render_plan, reader, result.structured, result.seq),
        *hint_lines,
    )


@verb(
    "expand",
    section="Remembering",
    needs=Right.ENTER,
    namespace="global",
    examples=("/expand", "/expand 42", "/expand 42 --start 20000"),
)
async def expand(caller: Caller, row: RowNumber | None = None, *, start: Offset = 0) -> ExpandedRow:
    """Show the full text of a row that was folded or cut.

    For models:
        Show the full text of a cut row, from character start.

    Args:
        row: row number, as the room shows it (default: the newest tool result).
        start: index of the first character to show (default 0).
    """

    def read(conn: Connection) -> Row | None:
        if row is not None:
            return rows.read_numbered(conn, caller.room_id, row)
        newest = rows.read_tail(conn, caller.room_id, 1, kinds=rows.CALL_END_KINDS)
        return newest[0] if newest else None

    log_row = await caller.world.store.read(read)
    if log_row is None:
        raise unknown_row_error(row) if row else NotFound("No tool was called here yet.")
    plan, structured = None, None
    if log_row.meta.get("renderer"):
        shown = log_row
        plan, structured = await caller.world.store.read(
            lambda conn: calls.read_shown_result(conn, shown)
        )
        plan = await add_page_problem(caller, plan, str(log_row.meta.get("tool")))
        plan = await load_content(caller, plan, log_row)
    # Terminals show the rendered text, page by page; programs the text of the result.
    is_drawn = caller.reader.is_person and not caller.wants_json
    content = read_content(plan) if is_drawn else None
    whole = log_row.content if content is None else content
    if start and start >= len(whole):
        length = len(whole)
        detail = f"row {log_row.seq} has {format_count(length, 'character')}"
        argument = caller.reader.name_flag("start")
        raise Invalid(f"{argument} must be at most {max(0, length - 1)} ({detail}; got {start}).")
    end = start + (
        MAX_MODEL_ROW_PART_CHARACTERS if caller.agent.kind == "model" else MAX_ROW_PART_CHARACTERS
    )
    left = max(0, len(whole) - end)
    author = caller.world.agents.name_author(log_row)
    part = whole[start:end]
    if plan is not None and content is not None:
        plan = {**plan, "config": {**plan["config"], "content": part}}
    elif start:
        plan, structured = None, None
    return ExpandedRow(
        seq=log_row.seq,
        kind=log_row.kind,
        who=author,
        text=part,
        left=left,
        next=end if left else None,
        render_plan=plan,
        structured=structured,
        steps=tuple((name, at) for name, at in log_row.meta.get("steps", ())),
        changes=log_row.meta.get(calls.CHANGES_KEY, ""),
    )
