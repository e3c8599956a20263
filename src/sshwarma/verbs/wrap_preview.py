"""Each row of a log before and after it is compacted, for `/wrap --compacted`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from sshwarma.common.limits import MAX_EXACT_INTEGER
from sshwarma.terminal.text import Block, Line, block, line, text_lines
from sshwarma.verbs.arguments import Arg
from sshwarma.verbs.views import cut_to_line, draw_columns, view_for_reader
from sshwarma.world.reader import Reader
from sshwarma.wrap.log_preview import LogPreview, RowOutcome

MAX_SHOWN_CALL_CHARACTERS: Final = 40
"""Characters of a call before its result."""

LogTokens: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_EXACT_INTEGER)]
"""Tokens of a log."""


@dataclass(frozen=True, slots=True)
class CompactedRow:
    """A row of a log before and after it is compacted.

    Attributes:
        row: its number; a call of the model itself has its result with it.
        policy: of a call or a result, what its tool keeps, such as `SHORT 500`; else "".
        outcome: `kept`, `shortened`, `size only`, `left out` or `summarized`.
        tokens_before: those of the row if its tool kept all.
        text: what the model would be sent of it; "" if it is summarized or left out.
        result: of a call of the model itself, what it would be sent of the result.
    """

    row: int
    kind: str
    who: str
    tool: str
    policy: str
    outcome: RowOutcome
    tokens_before: int
    tokens_after: int
    text: str
    result: str


@dataclass(frozen=True, slots=True)
class CompactedPreview:
    """A log as a model would be sent it, row by row, and the whole of it before.

    Attributes:
        budget: tokens that it has room for.
        summary: the text in place of rows that are summarized.
        note: what was cut because the log was too long; "" if nothing.
    """

    model: str
    budget: int
    tokens_before: int
    tokens_after: int
    rows: tuple[CompactedRow, ...]
    summary: str
    note: str


def describe_preview(model: str, preview: LogPreview) -> CompactedPreview:
    """Return a preview as the result of a verb."""
    return CompactedPreview(
        model,
        preview.budget,
        preview.tokens_before,
        preview.tokens_after,
        tuple(
            CompactedRow(
                row.seq,
                row.kind,
                row.author,
                row.tool,
                row.policy,
                row.outcome,
                row.tokens_before,
                row.tokens_after,
                row.text,
                row.result,
            )
            for row in preview.rows
        ),
        preview.summary,
        preview.note,
    )


def _describe_sent(row: CompactedRow) -> str:
    """Return a line of what is sent: of a call with a result, mostly the result."""
    if not row.result:
        return cut_to_line(row.text)
    call = " ".join(row.text.split())
    if len(call) > MAX_SHOWN_CALL_CHARACTERS:
        call = f"{call[: MAX_SHOWN_CALL_CHARACTERS - 1]}…"
    return cut_to_line(f"{call} → {' '.join(row.result.split())}")


@view_for_reader(CompactedPreview)
def draw_compacted_preview(preview: CompactedPreview, reader: Reader) -> Block:
    """Draw rows with their policies and tokens, then the summary."""
    size = f"{preview.tokens_before} → {preview.tokens_after} of {preview.budget} tokens"
    lines: list[Line] = [line(("heading", f"The log as {preview.model} would read it: {size}"))]
    if preview.note:
        lines.append(line(("warn", preview.note)))
    lines += draw_columns(
        (
            (
                ("time", str(row.row)),
                ("tool", reader.name_tool(row.tool)) if row.tool else ("name", row.who),
                ("dim", row.policy or "-"),
                f"{row.tokens_before} → {row.tokens_after}",
                ("dim" if row.outcome == "kept" else "mark", row.outcome),
                _describe_sent(row),
            )
            for row in preview.rows
        ),
        cut_last=True,
    )
    if preview.summary:
        lines += [line(), line(("mark", "summary")), *text_lines(preview.summary, indent=2)]
    if not preview.rows:
        lines.append(line(("dim", "It has no rows.")))
    return block(*lines)
