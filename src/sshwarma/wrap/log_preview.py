"""A preview of how a log is compacted: each row before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from sshwarma.world.leave_out import RetentionPolicy, ToolRetention, make_policy
from sshwarma.world.row import Row
from sshwarma.world.rows import CALL_KINDS
from sshwarma.wrap.compact import CompactedLog, compact_log
from sshwarma.wrap.layers import ContextCall, ContextMessage
from sshwarma.wrap.tokens import MESSAGE_OVERHEAD_TOKENS, estimate_tokens
from sshwarma.wrap.transcript import RowPart, Transcript, tool_of

RowOutcome: TypeAlias = Literal["kept", "shortened", "size only", "left out", "summarized"]
"""What becomes of a row: `left out` by its tool's policy, or because the budget is too small."""

_KEEP: Final = ToolRetention.of(make_policy("KEEP"))


@dataclass(frozen=True, slots=True)
class PreviewedRow:
    """A row of the log before and after it is compacted.

    Attributes:
        seq: its number; of a call of the model, which has its result with it, that of the call.
        kind: of the row.
        author: name of who wrote it; "" for the server.
        tool: of a call or a result.
        policy: of a call or a result, what its tool keeps, such as `SHORT 500`.
        tokens_before: as the model would be sent it if its tool kept all.
        text: what the model would be sent of it; "" if it is summarized or left out.
        result: of a call of the model, what it would be sent of the result.
    """

    seq: int
    kind: str
    author: str
    tool: str
    policy: str
    outcome: RowOutcome
    tokens_before: int
    tokens_after: int
    text: str
    result: str = ""


@dataclass(frozen=True, slots=True)
class LogPreview:
    """A log before and after it is compacted to `budget` tokens."""

    rows: tuple[PreviewedRow, ...]
    budget: int
    tokens_before: int
    tokens_after: int
    summary: str
    note: str


def preview_log(
    rows: Sequence[Row], transcript: Transcript, budget: int, kept_tokens: int = 0
) -> LogPreview:
    """Return a log before and after it is compacted; nothing stored changes."""
    tools = {tool_of(row) for row in rows if row.kind in CALL_KINDS}
    whole = replace(transcript, policies=dict.fromkeys(tools, _KEEP), cache=None)
    before = whole.render_parts(rows)
    compacted = compact_log(rows, transcript, budget, kept_tokens)
    after = _list_sent(rows, compacted)
    calls = {row.id: row for row in rows if row.kind == "tool.call"}
    found = tuple(
        _preview_row(part, after, compacted, transcript, calls)
        for part in before
        if part.sent is not None
    )
    summary_tokens = MESSAGE_OVERHEAD_TOKENS + estimate_tokens(compacted.summary)
    return LogPreview(
        found,
        budget,
        tokens_before=sum(entry.message.tokens for entry in whole.render_rows(rows)),
        tokens_after=sum(message.tokens for message in compacted.lines)
        + (summary_tokens if compacted.summary else 0),
        summary=compacted.summary,
        note=compacted.note,
    )


def _list_sent(
    rows: Sequence[Row], compacted: CompactedLog
) -> dict[str, ContextMessage | ContextCall]:
    """Return what is sent of each row after the log was compacted, by the row's id."""
    kept = [row for row in rows if row.id not in compacted.cut_row_ids]
    return {
        row.id: sent
        for row, sent in compacted.transcript.render_parts(kept)
        if sent is not None and (row.seq >= compacted.first_seq or row.id == compacted.question_id)
    }


def _preview_row(
    part: RowPart,
    after: Mapping[str, ContextMessage | ContextCall],
    compacted: CompactedLog,
    transcript: Transcript,
    calls: Mapping[str, Row],
) -> PreviewedRow:
    row, before = part
    is_of_call = row.kind in CALL_KINDS
    call = row if row.kind == "tool.call" else calls.get(row.parent_row_id or "")
    policy = transcript.policy_of(row, call) if is_of_call else None
    sent = after.get(row.id)
    return PreviewedRow(
        row.seq,
        row.kind,
        transcript.agents.name_author(row),
        tool_of(row) if is_of_call else "",
        str(policy or ""),
        _find_outcome(row, before, sent, compacted, policy),
        before.tokens if before is not None else 0,
        sent.tokens if sent is not None else 0,
        _write(sent),
        sent.result if isinstance(sent, ContextCall) else "",
    )


def _find_outcome(
    row: Row,
    before: ContextMessage | ContextCall | None,
    sent: ContextMessage | ContextCall | None,
    compacted: CompactedLog,
    policy: RetentionPolicy | None,
) -> RowOutcome:
    if sent is None:
        return "summarized" if row.id in compacted.cut_row_ids else "left out"
    if sent == before:
        return "kept"
    return "size only" if policy is not None and policy.mode == "PARAMS_ONLY" else "shortened"


def _write(sent: ContextMessage | ContextCall | None) -> str:
    match sent:
        case None:
            return ""
        case ContextMessage():
            return sent.text
        case ContextCall():
            return sent.describe_call()
