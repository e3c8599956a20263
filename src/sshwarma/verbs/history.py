"""The verbs of `/history`: rows of a room's log, and the number of tool calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from sqlalchemy import Connection

from sshwarma.common.limits import (
    DEFAULT_HISTORY_ROWS,
    MAX_MARKDOWN_ROWS,
    MAX_PAGE_CHARACTERS,
    MAX_SHOWN_ANSWER_CHARACTERS,
)
from sshwarma.terminal.markdown import render_markdown
from sshwarma.terminal.text import Block, Line, Span, Table, block, line, lines_with_head
from sshwarma.verbs.arguments import Count, Flag, OptionalMention, RowNumber
from sshwarma.verbs.log_rows import (
    cut_long_text,
    draw_remainder,
    is_by_model,
    unknown_row_error,
)
from sshwarma.verbs.registry import Spelling, group
from sshwarma.verbs.set import read_user_setting
from sshwarma.verbs.stats import tool_count_lines
from sshwarma.verbs.views import draw_hint, format_clock, view, view_for_reader
from sshwarma.world import private_messages, rows, statistics
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.calls import CHANGES_KEY
from sshwarma.world.errors import Forbidden, NotFound
from sshwarma.world.reader import Reader
from sshwarma.world.row import Row
from sshwarma.world.statistics import ToolCount


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One row of a log. `at` is in milliseconds since 1970."""

    seq: int
    at: int
    kind: str
    who: str
    text: str
    room: str = ""
    meta: dict[str, Any] | None = None
    turn: str | None = None  # the turn it belongs to
    dropped: bool = False  # whether models are no longer sent it
    marked: bool = False  # whether its Markdown is drawn for the caller


@dataclass(frozen=True, slots=True)
class OlderRows:
    """The arguments of the call that shows older rows; None for those to leave out."""

    before: int
    agent: str | None = None
    n: int | None = None
    tools: bool | None = None


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Rows of a log, oldest first.

    `older`: the arguments that show older rows, or None.
    """

    room: str
    entries: tuple[HistoryEntry, ...]
    older: OlderRows | None
    tools: bool = False  # whether it has only tool calls and their results
    whole: Annotated[SkipJsonSchema[bool], Field(exclude=True)] = False  # long rows are not cut
    before: Annotated[SkipJsonSchema[int | None], Field(exclude=True)] = None  # as requested


@view_for_reader(HistoryPage)
def draw_history_page(history: HistoryPage, reader: Reader) -> Block:
    """Draw the rows of a log, oldest first, and the call that shows older ones."""
    if not history.entries:
        if history.before is not None:
            rows_meant = "tool call" if history.tools else "row"
            return block(line(f"No {rows_meant} here is older than row {history.before}."))
        return block(
            line("No tool was called in ", ("room", history.room), " yet.")
            if history.tools
            else line("Nothing has been said here yet.")
        )
    lines: list[Line | Table] = []
    if history.older is not None:
        lines += draw_hint(reader, "older: {}", "history show", **asdict(history.older))
    for entry in history.entries:
        if (entry.meta or {}).get("nested") and not (history.tools or history.whole):
            continue  # folded into the call that made it
        text = entry.text if history.whole else cut_long_text(entry.text)
        lines += _draw_history_entry(entry, text, reader)
        lines += draw_remainder(entry.seq, len(entry.text) - len(text), reader)
    return block(*lines)


@dataclass(frozen=True, slots=True)
class ToolStats:
    """The number of calls of each tool in a room."""

    room: str
    total: int
    tools: tuple[ToolCount, ...]


@view(ToolStats)
def draw_tool_stats(stats: ToolStats) -> Block:
    """Draw the number of calls of each tool in a room."""
    if not stats.total:
        return block(line("No tool was called in ", ("room", stats.room), " yet."))
    return block(
        line(("heading", f"Tool calls in {stats.room}: {stats.total}")),
        *tool_count_lines(stats.tools),
    )


history = group(
    "history",
    section="Remembering",
    default="show",
    default_takes_words=True,
    name_action="of",
    spellings={"search": "search"},
    doc="""Show the conversation, or the versions of a text or tool.

    /history 50 shows the newest 50 rows, /history @bob your private messages with bob, /history
    plan the versions of the text plan.
    /history search is another spelling of /search.
    """,
)


@history.verb(
    "show",
    needs=Right.ENTER,
    default=True,
    tool="history",
    examples=(
        "/history",
        "/history 50",
        "/history --before 120",
        "/history @bob",
        "/history --tools",
    ),
    spellings={"stats": Spelling("history stats")},
    excludes={"row": ("n", "before", "at", "tools"), "at": ("before",)},
    rarely_used=("agent", "at", "row", "tools"),
    private_with=("agent",),
)
async def show_history(
    caller: Caller,
    agent: OptionalMention | None = None,
    n: Count = DEFAULT_HISTORY_ROWS,
    *,
    before: RowNumber | None = None,
    at: RowNumber | None = None,
    row: RowNumber | None = None,
    tools: Flag = False,
) -> HistoryPage:
    """Show the conversation.

    Shows the newest rows of this room with their times. If there are older rows, the first line
    says how to read them. A page ends after {MAX_PAGE_CHARACTERS} characters.

    For models:
        Show your room's log: its newest n rows, or n before a row.

    Args:
        agent: @NAME, for your private messages with that agent (default: this room).
        n: number of rows (default {DEFAULT_HISTORY_ROWS}, at most {MAX_HISTORY_ROWS}).
        before: rows older than this row number.
        at: rows around this row number.
        row: one row by its number, at full length.
        tools: only tool calls and their results.
    """
    log_id, name = await _resolve_log(caller, agent)
    if row is not None:
        found = await caller.world.store.read(lambda conn: rows.read_numbered(conn, log_id, row))
        if found is None:
            raise unknown_row_error(row)
        return replace(await _history_of(caller, name, [found], None), whole=True)
    requested = before
    if at is not None:
        before = at + n // 2 + 1
    kinds = rows.CALL_KINDS if tools else ()

    def read(conn: Connection) -> tuple[list[Row], bool]:
        page = rows.read_tail(
            conn, log_id, n, before=before, kinds=kinds, max_characters=MAX_PAGE_CHARACTERS
        )
        is_last = not page or not rows.read_tail(conn, log_id, 1, before=page[0].seq, kinds=kinds)
        return page, is_last

    log_rows, is_last = await caller.world.store.read(read)
    older = None
    if not is_last:
        size = n if n != DEFAULT_HISTORY_ROWS else None
        older = OlderRows(log_rows[0].seq, agent=agent, n=size, tools=tools or None)
    page = await _history_of(caller, name, log_rows, older)
    return replace(page, tools=tools, before=requested)


async def _history_of(
    caller: Caller, name: str, shown: list[Row], older: OlderRows | None
) -> HistoryPage:
    """Make a page of history for the caller.

    Answers are drawn in a thread, because many at once would block the event loop; the drawings are
    cached, so that showing them costs little.
    """
    has_markdown = (
        caller.is_at_terminal and read_user_setting(caller.agent.prefs, "markdown") == "on"
    )
    answers = {
        row.seq: row.content
        for row in shown[-MAX_MARKDOWN_ROWS:]
        if has_markdown
        and is_by_model(row, caller.world.agents)
        and len(row.content) <= MAX_SHOWN_ANSWER_CHARACTERS
    }
    if answers:
        await asyncio.to_thread(lambda: [render_markdown(text=text) for text in answers.values()])
    entries = (replace(make_history_entry(caller, row), marked=row.seq in answers) for row in shown)
    return HistoryPage(name, tuple(entries), older)


@history.verb("stats", needs=Right.ENTER, examples=("/history stats",))
async def show_tool_counts(caller: Caller) -> ToolStats:
    """Show the number of calls of each tool in this room.

    For people:
        /history --stats is the same.
    """
    room = await caller.room()
    tools = await caller.world.store.read(lambda conn: statistics.read_tool_counts(conn, room.id))
    return ToolStats(room.name, sum(count.calls for count in tools), tools)


async def _resolve_log(caller: Caller, agent: str | None) -> tuple[str, str]:
    """Return the id and name of a room's log, or of private messages with an agent.

    Raises:
        NotFound: if there are no private messages with that agent.
        Forbidden: if a model asks for messages that the person whom it answers may not read.
    """
    if agent is None:
        return caller.room_id, (await caller.room()).name
    peer = caller.world.agents.find(agent)
    log_id = await caller.world.store.read(
        lambda conn: private_messages.find_private_log(conn, caller.agent.id, peer.id)
    )
    if log_id is None:
        raise NotFound(f"You and {peer.name} have not exchanged private messages.")
    readers = {reader.id for reader in caller.readers}
    if not readers or not readers <= {caller.agent.id, peer.id}:
        asker = caller.world.agents.name_of(caller.person_id)
        raise Forbidden(f"Your private messages with {peer.name} are not for {asker} to read.")
    return log_id, peer.name


def make_history_entry(caller: Caller, row: Row, *, kind: str = "", room: str = "") -> HistoryEntry:
    """Make the entry of a row. A `kind` other than "" replaces the row's kind."""
    return HistoryEntry(
        seq=row.seq,
        at=row.created_at,
        kind=kind or row.kind,
        who=caller.world.agents.name_author(row),
        text=row.content,
        room=room,
        meta=row.meta or None,
        dropped=row.status == "dropped",
    )


def _draw_history_entry(entry: HistoryEntry, text: str, reader: Reader) -> Sequence[Line | Table]:
    style = "text"
    match entry.kind:
        case "chat" | "tell":
            head: list[Span] = [("name", entry.who), ("", ": ")]
        case "emote":
            head, style = [("emote", f"* {entry.who} ")], "emote"
        case "presence" | "notice":
            head, style = [("presence", f"· {entry.who} ")], "presence"
        case kind if kind.startswith("tool."):
            meta = entry.meta or {}
            tool = reader.name_tool(str(meta.get("tool", "")))
            head = [("name", entry.who), ("tool", f" {kind} {tool} ")]
            if changes := meta.get(CHANGES_KEY):
                head.append(("dim", f"· {changes} · "))
        case kind:
            label = kind.removeprefix("journal.")
            head = [("heading", f"[{label}] "), ("name", entry.who), ("", ": ")]
    place = [("time", format_clock(entry.at)), ("dim", f" {entry.seq} ")]
    if entry.dropped:
        place.append(("warn", "dropped "))
        style = "dim"
    if entry.marked and not entry.dropped:
        return render_markdown(*place, *head, text=text)
    return lines_with_head(*place, *head, text=text, style=style, indent=8)
