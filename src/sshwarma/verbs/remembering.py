"""Remembering: the journal, the history of a room, and finding what was said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from sqlalchemy import Connection, func, select

from sshwarma.terminal.text import Block, Line, Span, block, headed, line
from sshwarma.verbs.arguments import AgentName, Arg, Count, Flag, RowNumber, Text
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import clock, columns, view
from sshwarma.world import directs, rows, search
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, NotFound
from sshwarma.world.events import Row
from sshwarma.world.ids import now_ms
from sshwarma.world.schema import tool_calls

SNIPPET = 200
BAR = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One row as history shows it."""

    seq: int
    at: int
    kind: str
    who: str
    text: str
    room: str = ""
    meta: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    kind: str
    room: str
    seq: int
    text: str


@view(Noted)
def _(noted: Noted) -> Block:
    return block(line(("heading", f"[{noted.kind}] "), noted.text, hang=2))


@verb(
    "note",
    group="Remembering",
    needs=Right.TALK,
    examples=("/note the relay box is 10.0.0.9",),
    default=True,
)
async def note(caller: Caller, text: Text) -> Noted:
    """Add note

    text: what to keep in this room's journal.
    """
    return await _keep(caller, "note", text)


@verb(
    "decide",
    group="Remembering",
    needs=Right.TALK,
    examples=("/decide we ship on Friday",),
    default=True,
)
async def decide(caller: Caller, text: Text) -> Noted:
    """Record decision

    text: what was decided.
    """
    return await _keep(caller, "decision", text)


@verb(
    "idea", group="Remembering", needs=Right.TALK, examples=("/idea cache the route",), default=True
)
async def idea(caller: Caller, text: Text) -> Noted:
    """Capture idea

    text: the idea.
    """
    return await _keep(caller, "idea", text)


@verb(
    "milestone",
    group="Remembering",
    needs=Right.TALK,
    examples=("/milestone first green run",),
    default=True,
)
async def milestone(caller: Caller, text: Text) -> Noted:
    """Mark milestone

    text: what was reached.
    """
    return await _keep(caller, "milestone", text)


@dataclass(frozen=True, slots=True)
class Journal:
    room: str
    entries: tuple[Entry, ...]


@view(Journal)
def _(journal: Journal) -> Block:
    if not journal.entries:
        return block(line("The journal of ", ("room", journal.room), " is empty."))
    return block(
        line(("heading", f"Journal of {journal.room}:")),
        *columns(
            (
                ("time", clock(entry.at)),
                ("heading", entry.kind),
                ("name", entry.who),
                _flat(entry.text),
            )
            for entry in journal.entries
        ),
    )


@verb(
    "journal",
    group="Remembering",
    needs=Right.ENTER,
    examples=("/journal", "/journal decision 5"),
    default=True,
)
async def journal(
    caller: Caller,
    kind: Literal["note", "decision", "idea", "milestone", "all"] = "all",
    n: Count = 20,
) -> Journal:
    """Read journal

    kind: note, decision, idea or milestone; all of them if left out.
    n: how many of the newest entries.
    """
    room = await caller.room()
    prefix = "journal." if kind == "all" else f"journal.{kind}"
    found = await caller.world.store.read(lambda conn: rows.tail(conn, room.id, n, prefix=prefix))
    return Journal(
        room.name,
        tuple(_entry(caller, row, kind=row.kind.removeprefix("journal.")) for row in found),
    )


@dataclass(frozen=True, slots=True)
class History:
    """Rows of a log, oldest first. `older` is the line that shows what came before, if any."""

    room: str
    entries: tuple[Entry, ...]
    older: str | None


@view(History)
def _(history: History) -> Block:
    if not history.entries:
        return block(line("Nothing has been said here yet."))
    lines: list[Line] = []
    if history.older is not None:
        lines.append(line(("dim", f"older: {history.older}")))
    for entry in history.entries:
        lines += _history_lines(entry)
    return block(*lines)


@dataclass(frozen=True, slots=True)
class ToolCount:
    tool: str
    calls: int
    errors: int
    share: float  # of all calls in the room, 0 to 1


@dataclass(frozen=True, slots=True)
class ToolStats:
    room: str
    total: int
    tools: tuple[ToolCount, ...]


@view(ToolStats)
def _(stats: ToolStats) -> Block:
    if not stats.total:
        return block(line("No tool was called in ", ("room", stats.room), " yet."))
    return block(
        line(("heading", f"Tool calls in {stats.room}: {stats.total}")),
        *columns(
            (
                ("tool", count.tool),
                f"{count.calls}",
                f"{count.share:.0%}",
                ("error", f"{count.errors} errors") if count.errors else ("dim", ""),
                ("mark", "█" * max(1, round(count.share * BAR))),
            )
            for count in stats.tools
        ),
    )


@verb(
    "history",
    group="Remembering",
    needs=Right.ENTER,
    default=True,
    examples=(
        "/history",
        "/history 50",
        "/history --before 120",
        "/history @bob",
        "/history --tools",
        "/history --stats",
    ),
)
async def history(
    caller: Caller,
    n: Annotated[str, Arg("agent")] = "20",
    *,
    before: RowNumber | None = None,
    at: RowNumber | None = None,
    row: RowNumber | None = None,
    tools: Flag = False,
    stats: Flag = False,
) -> History | ToolStats:
    """View conversation

    The newest rows of this room with their times. The first line shows how to page back, down to
    the first row.

    n: how many rows, 20 if left out; or @NAME for what you two told each other.
    before: rows older than this number.
    at: rows around this number, as search shows it.
    row: one row, whole, however long.
    tools: only calls of tools and what they gave.
    stats: how often each tool was called here.
    """
    room = await caller.room()
    if stats:
        return await caller.world.store.read(lambda conn: _stats(conn, room.id, room.name))
    log_id, name, count = await _which_log(caller, n)
    if row is not None:
        found = await caller.world.store.read(
            lambda conn: rows.tail(conn, log_id, 1, before=row + 1)
        )
        if not found or found[0].seq != row:
            raise NotFound(f"There is no row {row} here.")
        return History(name, (_entry(caller, found[0]),), None)
    if at is not None:
        before = at + count // 2 + 1
    kinds = rows.TOOL_KINDS if tools else ()
    found = await caller.world.store.read(  # one more than asked, to know whether there is one
        lambda conn: rows.tail(conn, log_id, count + 1, before=before, kinds=kinds)
    )
    older = None
    if len(found) > count:
        found = found[1:]
        who = f" {n}" if n.startswith("@") else f" {count}" if count != 20 else ""
        older = f"/history{who} --before {found[0].seq}{' --tools' if tools else ''}"
    return History(name, tuple(_entry(caller, item) for item in found), older)


@dataclass(frozen=True, slots=True)
class Found:
    words: str
    entries: tuple[Entry, ...]


@view(Found)
def _(found: Found) -> Block:
    if not found.entries:
        return block(line(f"Nothing you may read has {found.words}."))
    return block(
        line(("heading", f"Found {len(found.entries)}, newest first:")),
        *columns(
            (
                ("time", clock(entry.at)),
                ("room", entry.room),
                f"#{entry.seq}",
                ("name", entry.who),
                _flat(entry.text),
            )
            for entry in found.entries
        ),
        line(("dim", "In its room, /history --at NUMBER shows what was around it.")),
    )


@verb(
    "search",
    group="Remembering",
    examples=("/search relay box", '/search "exact words"'),
    namespace="global",
)
async def find(caller: Caller, text: Text, *, n: Count = 20) -> Found:
    """Find what was said

    In every room you may enter and in what you were told, newest first. All the words must be
    there; the last may be the start of one; double quotes keep words together.

    text: the words.
    n: how many to show.
    """
    if not search.match_expression(text):
        raise Invalid("Say what to search for.", hint='Words or "exact words".')
    world, now = caller.world, now_ms()
    names = {
        room.id: room.name
        for room in await world.rooms()
        if Right.ENTER in room.rights_of(caller.agent, now)
    }
    await world.index_rows()

    def look(conn: Connection) -> list[Row]:
        logs = [*names, *directs.logs_of(conn, caller.agent.id)]
        return search.find(conn, text, logs, n)

    found = await world.store.read(look)
    return Found(
        text, tuple(_entry(caller, row, room=names.get(row.room_id, "(told)")) for row in found)
    )


async def _keep(caller: Caller, kind: str, text: str) -> Noted:
    words = text.strip()
    if not words:
        raise Invalid(f"Say what the {kind} is.")
    if len(words.encode()) > caller.limits.line_bytes:
        raise Invalid(f"An entry has at most {caller.limits.line_bytes} bytes.")
    row = await caller.change(
        lambda tx: rows.append(
            tx, caller.room_id, f"journal.{kind}", words, author_id=caller.agent.id
        )
    )
    return Noted(kind, (await caller.room()).name, row.seq, words)


async def _which_log(caller: Caller, n: AgentName) -> tuple[str, str, int]:
    """The id and name of the log that is asked for, and how many rows of it."""
    if n.startswith("@"):
        other = caller.world.agents.find(n)
        log_id = await caller.world.store.read(
            lambda conn: directs.log_of(conn, caller.agent.id, other.id)
        )
        if log_id is None:
            raise NotFound(f"You and {other.name} have told each other nothing.")
        return log_id, other.name, 20
    if not n.isdecimal() or len(n) > 4 or not 1 <= int(n) <= 1000:
        raise Invalid(f"{n[:40]} is not a number from 1 to 1000, nor @NAME.")
    return caller.room_id, (await caller.room()).name, int(n)


def _stats(conn: Connection, room_id: str, name: str) -> ToolStats:
    query = (
        select(
            tool_calls.c.tool_id,
            func.count(),
            func.count().filter(tool_calls.c.status == "error"),
        )
        .where(tool_calls.c.chat_id == room_id)
        .group_by(tool_calls.c.tool_id)
        .order_by(func.count().desc(), tool_calls.c.tool_id)
    )
    counted = conn.execute(query).all()
    total = sum(calls for _, calls, _ in counted)
    return ToolStats(
        name,
        total,
        tuple(ToolCount(tool, calls, errors, calls / total) for tool, calls, errors in counted),
    )


def _entry(caller: Caller, row: Row, *, kind: str = "", room: str = "") -> Entry:
    return Entry(
        row.seq,
        row.created_at,
        kind or row.kind,
        caller.world.agents.name_of(row.author_id),
        row.content,
        room,
        row.meta or None,
    )


def _history_lines(entry: Entry) -> list[Line]:
    style = "text"
    match entry.kind:
        case "chat" | "tell":
            who: list[Span] = [("name", entry.who), ("", ": ")]
        case "emote":
            who, style = [("emote", f"* {entry.who} ")], "emote"
        case "presence" | "notice":
            who, style = [("presence", f"· {entry.who} ")], "presence"
        case kind if kind.startswith("tool."):
            tool = (entry.meta or {}).get("tool", "")
            who = [("name", entry.who), ("tool", f" {kind} {tool} ")]
        case kind:
            label = kind.removeprefix("journal.")
            who = [("heading", f"[{label}] "), ("name", entry.who), ("", ": ")]
    place = (("time", clock(entry.at)), ("dim", f" {entry.seq} "))
    return headed(*place, *who, text=entry.text, style=style, indent=8)


def _flat(text: str) -> str:
    """A text on one line, cut to SNIPPET characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= SNIPPET else flat[: SNIPPET - 1] + "…"
