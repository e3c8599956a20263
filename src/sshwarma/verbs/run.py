"""The verbs run, attachment and expand: tool calls and their results."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_MODEL_ROW_PART_CHARACTERS, MAX_ROW_PART_CHARACTERS
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line, text_lines
from sshwarma.tools.arguments import parse_arguments
from sshwarma.verbs.arguments import Offset, RowNumber, ToolName
from sshwarma.verbs.registry import verb
from sshwarma.verbs.thing_completion import ToolArguments
from sshwarma.verbs.tool_views import ToolTestResult
from sshwarma.verbs.views import format_count, view_for_reader
from sshwarma.world import attachments, rows
from sshwarma.world.access import Right
from sshwarma.world.attachments import Attachment
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.reader import Reader
from sshwarma.world.row import Row
from sshwarma.wrap.transcript import RESULT_KINDS

MAX_SEARCHED_CALLS = 100
"""Number of newest calls that are searched for an attachment."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a tool call.

    The room saw the call and the start of the result; row `seq` of its log contains all of it.
    `attachments`: the number of files in it; `calls`: the number of calls that the tool made.
    """

    tool: str
    ok: bool
    text: str
    structured: Any
    seconds: float
    seq: int
    attachments: int = 0
    calls: int = 0


@view_for_reader(RunResult)
def draw_run_result(ran: RunResult, reader: Reader) -> Block:
    """Draw the start of a tool result, and the line that shows the rest."""
    style, mark = ("ok", "✓") if ran.ok else ("error", "✗")
    # The tool decides how long this is; a terminal that cannot take it would be cut off.
    excess = len(ran.text) - MAX_ROW_PART_CHARACTERS
    hint = ""
    if excess > 0:
        call = reader.name_call("expand", row=ran.seq, start=MAX_ROW_PART_CHARACTERS)
        hint = f"… {excess} more: {call}{', or --json' if reader.is_person else ''}"
    notes = []
    if ran.calls:
        way = reader.hint(": {}", "history show", tools=True)
        notes.append(("dim", f" · {format_count(ran.calls, 'call')} inside{way}"))
    if ran.attachments:
        call = reader.name_call("attachment", row=ran.seq)
        notes += [("dim", " · "), ("verb", call)] if call else []
    return block(
        line((style, mark), f" {ran.tool} {ran.seconds:.1f}s", *notes, hang=4),
        *text_lines(ran.text[:MAX_ROW_PART_CHARACTERS], indent=2),
        *([line(("dim", hint))] if hint else ()),
    )


@verb(
    "run",
    section="Inventory",
    needs=Right.TALK,
    tool=False,
    examples=(
        "/run sshwarma:who",
        "/run holler:sample prompt=jazz",
        '/run holler:sample {"bars": 4}',
    ),
)
async def run(caller: Caller, name: ToolName, arguments: ToolArguments | None = None) -> RunResult:
    """Call a tool that is equipped for you here.

    The room sees the call and its result, like those of a model.

    Args:
        name: name of the tool, such as holler:sample.
        arguments: NAME=VALUE words, or a JSON object.
    """
    tools = services_of(caller).tools
    tool = (await tools.find(caller, name)).thing
    outcome = await tools.call(caller, name, parse_arguments(tool, arguments or ""))
    return RunResult(
        tool=outcome.tool,
        ok=outcome.ending == "result",
        text=outcome.text,
        structured=outcome.structured,
        seconds=outcome.seconds,
        seq=outcome.seq,
        attachments=len(outcome.attachments),
        calls=outcome.nested_calls,
    )


def is_failed_run(result: object) -> bool:
    """Return whether a result is that of a tool that failed; scripts see it in the exit status."""
    return isinstance(result, RunResult | ToolTestResult) and not result.ok


@dataclass(frozen=True, slots=True)
class AttachmentData:
    """Attachment `number` of the `of` attachments of a tool result; `data` is base64."""

    seq: int
    number: int
    of: int
    kind: str
    size: int
    data: str


@view_for_reader(AttachmentData)
def draw_attachment_data(attachment: AttachmentData, reader: Reader) -> Block:
    """Draw the kind and size of an attachment, and the command that saves it."""
    reference = (
        f"{attachment.seq}" if attachment.of == 1 else f"{attachment.seq} {attachment.number}"
    )
    hint = f"ssh HOST attachment {reference} > FILE  saves it"
    return block(
        line(
            ("tool", attachment.kind),
            f", {attachment.size:,} bytes ({attachment.number} of {attachment.of})",
        ),
        *([line("  ", ("dim", hint), hang=2)] if reader.is_person else []),
    )


@verb(
    "attachment",
    section="Remembering",
    needs=Right.ENTER,
    tool=False,
    examples=("/attachment", "/attachment 54", "/attachment 54 2"),
)
async def attachment(
    caller: Caller, row: RowNumber | None = None, number: RowNumber | None = None
) -> AttachmentData:
    """Get an image, a sound or a file from the result of a tool.

    A log holds only text. Attachments are stored beside it, the newest
    {MAX_ROOM_ATTACHMENT_BYTES} of each room. In JSON they are base64.

    For people:
        `ssh HOST attachment 54 > FILE` writes the bytes themselves. After `/set images on` a
        terminal shows images (PNG, JPEG, GIF, WebP) as pictures: here, and below the results of
        tools as they come.

    Args:
        row: row number of the tool result (default: the newest that has an attachment).
        number: number of the attachment in that result (default 1).
    """
    return await read_attachment(caller, row, number or 1)


async def read_attachment(caller: Caller, row: int | None, number: int) -> AttachmentData:
    """Read an attachment of a tool result in the caller's room.

    Raises:
        NotFound: if there is no attachment of that number, or it was deleted to save space.
    """

    def read(conn: Connection) -> tuple[Row | None, Attachment | None]:
        if row is None:
            recent = rows.read_tail(conn, caller.room_id, MAX_SEARCHED_CALLS, prefix="tool.")
            result_row = next(
                (call_row for call_row in reversed(recent) if call_row.meta.get("attachments")),
                None,
            )
        else:
            result_row = next(iter(rows.read_tail(conn, caller.room_id, 1, before=row + 1)), None)
        if result_row is None or (row is not None and result_row.seq != row):
            return None, None
        return result_row, attachments.read_attachment(
            conn, str(result_row.meta.get("call_id", "")), number
        )

    result_row, attached_file = await caller.world.store.read(read)
    if result_row is None or not result_row.meta.get("attachments"):
        if row is None:
            raise NotFound("No tool result here has an attachment.")
        if result_row is None:
            raise NotFound(f"Unknown row {row}.")
        raise NotFound(f"Row {row} has no attachment.")
    total = len(result_row.meta["attachments"])
    if attached_file is None:
        problem = (
            "was deleted to save space" if number <= total else f"not found: the row has {total}"
        )
        raise NotFound(f"Attachment {number} of row {result_row.seq} {problem}.")
    data = base64.b64encode(attached_file.data).decode()
    return AttachmentData(
        seq=result_row.seq,
        number=number,
        of=total,
        kind=attached_file.media_type,
        size=len(attached_file.data),
        data=data,
    )


@dataclass(frozen=True, slots=True)
class ExpandedRow:
    """A part of a row's text.

    `left` characters follow it, from index `next`; None at the end.
    """

    seq: int
    kind: str
    who: str
    text: str
    left: int
    next: int | None


@view_for_reader(ExpandedRow)
def draw_expanded_row(result: ExpandedRow, reader: Reader) -> Block:
    """Draw a part of a row's text, and the line that shows the next part."""
    hint_lines = []
    if result.next is not None:
        hint = reader.hint(": {}", "expand", row=result.seq, start=result.next)
        hint_lines = [line(("dim", f"… {result.left} more{hint}"))]
    return block(
        line(("time", f"{result.seq} "), ("name", result.who), ("dim", f" {result.kind}")),
        *text_lines(result.text, indent=2),
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
        Show the full text of a cut row.

        start: first character to show

    Args:
        row: row number, as the room shows it (default: the newest tool result).
        start: index of the first character to show (default 0).
    """
    log_rows = await caller.world.store.read(
        lambda conn: (
            rows.read_tail(conn, caller.room_id, 1, before=row + 1)
            if row is not None
            else rows.read_tail(conn, caller.room_id, 1, kinds=sorted(RESULT_KINDS))
        )
    )
    if not log_rows or (row is not None and log_rows[0].seq != row):
        raise NotFound(f"Unknown row {row}." if row else "No tool was called here yet.")
    log_row = log_rows[0]
    if start and start >= len(log_row.content):
        length = len(log_row.content)
        detail = f"row {log_row.seq} has {format_count(length, 'character')}"
        argument = caller.reader.name_flag("start")
        raise Invalid(f"{argument} must be at most {max(0, length - 1)} ({detail}; got {start}).")
    end = start + (
        MAX_MODEL_ROW_PART_CHARACTERS if caller.agent.kind == "model" else MAX_ROW_PART_CHARACTERS
    )
    left = max(0, len(log_row.content) - end)
    author = caller.world.agents.name_of(log_row.author_id)
    part = log_row.content[start:end]
    return ExpandedRow(
        seq=log_row.seq,
        kind=log_row.kind,
        who=author,
        text=part,
        left=left,
        next=end if left else None,
    )
