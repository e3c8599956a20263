"""Views of turns: a list, and one turn row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from sshwarma.terminal.text import Block, Line, block, line, lines_with_head
from sshwarma.verbs.views import (
    Confirmation,
    draw_columns,
    draw_confirmation,
    format_clock,
    format_count,
    view,
    view_for_reader,
)
from sshwarma.world.reader import NextCall, Reader


@dataclass(frozen=True, slots=True)
class TurnSummary:
    """A turn: a question to a model, with its answer.

    Attributes:
        short: the end of its id, enough to name it.
        snippet: the start of the question.
        answer: the start of the answer; "" without one.
        at: time of its start, in milliseconds since 1970.
        status: completed, cancelled, open or dropped.
        on: whether it is part of the current conversation.
        parent: id of the turn that it follows; "" for a first one.
        head: whether the next question follows it.
    """

    id: str
    short: str
    at: int
    by: str
    agent: str
    snippet: str
    answer: str
    rows: int
    tokens: int
    status: str
    on: bool
    parent: str = ""
    head: bool = False


@dataclass(frozen=True, slots=True)
class ChangedConversation:
    """A turn that left the conversation or joined it, with files that changed.

    Attributes:
        turn: its id.
        rows: number of rows that were dropped or restored.
        changed_files: paths of files that changed with the conversation.
        kept_files: paths of files that did not, because they were changed since.
    """

    text: str
    turn: str
    rows: int
    changed_files: tuple[str, ...]
    kept_files: tuple[str, ...]
    next: Annotated[SkipJsonSchema[NextCall | None], Field(exclude=True)] = None


@view_for_reader(ChangedConversation)
def draw_changed_conversation(changed: ChangedConversation, reader: Reader) -> Block:
    """Draw what was done, and what the reader can do next."""
    return draw_confirmation(Confirmation(changed.text, changed.next), reader)


@dataclass(frozen=True, slots=True)
class TurnList:
    """The newest turns of a room, oldest first."""

    room: str
    turns: tuple[TurnSummary, ...]


@view(TurnList)
def draw_turn_list(result: TurnList) -> Block:
    """Draw the newest turns of a room, one line for each."""
    if not result.turns:
        return block(line("No model has been asked anything in ", ("room", result.room), " yet."))
    return block(
        line(("heading", f"Turns of {result.room}, newest last:")),
        *draw_columns(
            (
                (
                    ("mark", turn.short),
                    ("time", format_clock(turn.at)),
                    f"{turn.by} → {turn.agent}",
                    format_count(turn.rows, "row"),
                    format_count(turn.tokens, "token"),
                    ("warn", _flag(turn)),
                    turn.snippet,
                )
                for turn in result.turns
            ),
            cut_last=True,
        ),
    )


def _flag(turn: TurnSummary) -> str:
    if turn.status == "completed":
        return "" if turn.on else "on another branch"
    return turn.status


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A row of a turn.

    Attributes:
        role: the name of its part in a provider's API.
        tool: name of the tool, for a call or its result.
    """

    seq: int
    role: str
    who: str
    kind: str
    tokens: int
    text: str
    tool: str = ""


@dataclass(frozen=True, slots=True)
class TurnDetails:
    """A turn and its rows."""

    turn: TurnSummary
    rows: tuple[TurnRow, ...]


@view(TurnDetails)
def draw_turn_details(shown: TurnDetails) -> Block:
    """Draw a turn row by row."""
    turn = shown.turn
    summary = f"{turn.by} → {turn.agent}, {turn.tokens} tokens, {turn.status}"
    lines: list[Line] = [line(("mark", turn.short), f"  {summary}  ", ("dim", turn.id))]
    for row in shown.rows:
        head = line(("time", f"{row.seq} "), ("heading", row.role), ("name", f" {row.who}"))
        summary = f"{row.kind} {row.tool}".rstrip()
        lines.append(line(*head.spans, ("dim", f"  {summary}, {row.tokens} tokens")))
        lines += lines_with_head("  ", text=row.text)
    return block(*lines)
