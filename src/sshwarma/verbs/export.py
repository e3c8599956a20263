"""The verb export: a room as Markdown for people, and as JSON for programs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_EXPORT_CHARACTERS, MAX_EXPORT_ROWS, MAX_EXPORT_TEXTS
from sshwarma.terminal.text import Block, Line, block, line, split_text, text_lines
from sshwarma.verbs.arguments import RowNumber
from sshwarma.verbs.look import RoomExit
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import format_count, view, view_by_lines
from sshwarma.world import bag_reads, rows
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms
from sshwarma.world.rooms import Room
from sshwarma.world.row import Row
from sshwarma.world.things import Thing

LEFT_OUT_KINDS: Final = ("presence",)
"""Kinds of rows that a document leaves out: arrivals and departures."""

NameOf: TypeAlias = Callable[[Row], str]


@dataclass(frozen=True, slots=True)
class ExportedText:
    """A text or a reference on the floor of a room."""

    name: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ExportedRow:
    """A row of a room's log.

    Attributes:
        at: in milliseconds since 1970.
        tool: name of the tool that was called; "" if the row is neither a call nor a result.
        call: of a result, the number of the row of its call.
    """

    seq: int
    at: int
    kind: str
    who: str
    text: str
    tool: str = ""
    call: int | None = None


@dataclass(frozen=True, slots=True)
class ExportedRoom:
    """A room as a document.

    Attributes:
        at: the moment of the export, in milliseconds since 1970.
        left_out_texts: number of texts that did not fit.
        older: value of `before` for an export of the older rows; None if there are none.
    """

    name: str
    at: int
    description: str
    vibe: str
    access: str
    exits: tuple[RoomExit, ...]
    texts: tuple[ExportedText, ...]
    left_out_texts: int
    rows: tuple[ExportedRow, ...]
    older: int | None


@view_by_lines(ExportedRoom)
def draw_exported_room(room: ExportedRoom) -> Iterator[Line]:
    """Draw a room as Markdown: its texts, then its log, the oldest row first."""
    yield from _draw_head(room)
    if room.texts:
        yield from (line("## Texts"), line())
    for text in room.texts:
        yield from (line(f"### {text.name} ({text.kind})"), line())
        yield from _draw_fence(text.text)
        yield line()
    if room.left_out_texts:
        left_out = format_count(room.left_out_texts, "text")
        yield from (line(f"{left_out} did not fit into this document."), line())
    yield from (line("## Log"), line())
    if room.older is not None:
        yield line(f"Older rows: ssh HOST export room --before {room.older}")
        yield line()
    yield from _draw_rows(room.rows)


def _draw_head(room: ExportedRoom) -> list[Line]:
    lines: list[Line] = [line(f"# {room.name}"), line()]
    if room.description:
        lines += [*text_lines(room.description, ""), line()]
    if room.vibe:
        lines += [line(f"Vibe: {room.vibe}"), line()]
    lines += [line(f"Access: {room.access}. Exported {_format_time(room.at)}."), line()]
    if room.exits:
        lines += [line("## Exits"), line()]
        lines += [line(f"- {way.direction}: {way.to}") for way in room.exits]
        lines.append(line())
    return lines


def _draw_rows(shown: tuple[ExportedRow, ...]) -> Iterator[Line]:
    for row in shown:
        kind = "" if row.kind == "chat" else f" [{_describe_kind(row)}]"
        head = f"- {_format_time(row.at)} **{row.who}**{kind}: "
        for part in split_text(row.text):
            yield line(f"{head}{part}")
            head = "  "


@dataclass(frozen=True, slots=True)
class ExportedJournal:
    """The journal of a room as a document, the oldest entry first.

    `older`: whether there are older entries, which did not fit.
    """

    name: str
    rows: tuple[ExportedRow, ...]
    older: bool


@view_by_lines(ExportedJournal)
def draw_exported_journal(journal: ExportedJournal) -> Iterator[Line]:
    """Draw a journal as Markdown."""
    yield from (line(f"# Journal of {journal.name}"), line())
    if journal.older:
        yield from (line("Older entries did not fit into this document."), line())
    yield from _draw_rows(journal.rows)


def _describe_kind(row: ExportedRow) -> str:
    call = "" if row.call is None else f", called in row {row.call}"
    return f"row {row.seq}: {row.kind} {row.tool}{call}" if row.tool else row.kind


def _draw_fence(text: str) -> Iterator[Line]:
    """Yield a text between fences that are longer than any row of backticks in it."""
    longest = max((len(found[0]) for found in re.finditer("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield line(fence)
    yield from text_lines(text, "")
    yield line(fence)


def _format_time(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))


@dataclass(frozen=True, slots=True)
class ExportAdvice:
    """How to export a room to a file from a terminal, and what the file would hold."""

    room: str
    texts: int
    rows: int


@view(ExportAdvice)
def draw_export_advice(advice: ExportAdvice) -> Block:
    """Draw the commands that write the document to a file."""
    contents = f"{format_count(advice.texts, 'text')}, {format_count(advice.rows, 'row')}"
    return block(
        line("A document of ", ("room", advice.room), f" ({contents}) goes to your shell:"),
        line("  ", ("verb", f"ssh HOST export room --room {advice.room} > {advice.room}.md")),
        line(
            "  ", ("verb", f"ssh HOST export room --room {advice.room} --json > {advice.room}.json")
        ),
    )


export = group(
    "export", section="Remembering", default="room", doc="Write what is here to a document."
)


@export.verb(
    "room",
    needs=Right.ENTER,
    tool=False,
    examples=("/export room", "/export room --before 4000"),
)
async def export_room(
    caller: Caller, *, before: RowNumber | None = None
) -> ExportedRoom | ExportAdvice:
    """Write this room to a document.

    Holds the description, the exits and the texts of the room, and the newest {MAX_EXPORT_ROWS}
    rows of its log; at most {MAX_EXPORT_CHARACTERS} characters of the texts, and of the rows.
    Arrivals and departures are left out, and so are private messages, which are in no room.

    For people:
        From your shell: ssh HOST export room --room NAME > room.md. With --json it is JSON.

    Args:
        before: only rows of the log with a lower number than this.
    """
    room = await caller.room()
    name_of = caller.world.agents.name_author
    texts, left_out, shown, older = await caller.world.store.read(
        lambda conn: _read_document(conn, room.id, before, name_of)
    )
    if caller.is_at_terminal:
        return ExportAdvice(room.name, len(texts), len(shown))
    exits = await caller.visible_exits(room)
    return ExportedRoom(
        name=room.name,
        at=now_ms(),
        description=room.description,
        vibe=room.vibe,
        access=room.mode,
        exits=tuple(RoomExit(way.direction, way.to_name) for way in exits),
        texts=tuple(
            ExportedText(thing.name, thing.kind, thing.content or thing.uri or "")
            for thing in texts
        ),
        left_out_texts=left_out,
        rows=shown,
        older=older,
    )


async def export_journal(caller: Caller) -> ExportedJournal:
    """Return the journal of the caller's room, as long as a log may be."""
    room = await caller.room()
    name_of = caller.world.agents.name_author
    return await caller.world.store.read(lambda conn: _read_journal(conn, room, name_of))


def _read_journal(conn: Connection, room: Room, name_of: NameOf) -> ExportedJournal:
    found = rows.read_tail(
        conn,
        room.id,
        MAX_EXPORT_ROWS,
        prefix="journal.",
        max_characters=MAX_EXPORT_CHARACTERS,
    )
    entries = tuple(
        ExportedRow(
            row.seq,
            row.created_at,
            row.kind.removeprefix("journal."),
            name_of(row),
            row.content,
        )
        for row in found
    )
    is_cut = len(found) == MAX_EXPORT_ROWS or (
        sum(len(row.content) for row in found) >= MAX_EXPORT_CHARACTERS
    )
    return ExportedJournal(room.name, entries, is_cut)


def _read_document(
    conn: Connection, room_id: str, before: int | None, name_of: NameOf
) -> tuple[list[Thing], int, tuple[ExportedRow, ...], int | None]:
    """Read a room's texts, the number of those that did not fit, and the newest rows.

    The last value is `before` for the older rows.
    """
    texts, left_out = bag_reads.read_texts(
        conn, room_id, limit=MAX_EXPORT_TEXTS, max_characters=MAX_EXPORT_CHARACTERS
    )
    found = rows.read_tail(
        conn,
        room_id,
        MAX_EXPORT_ROWS,
        before=before,
        max_characters=MAX_EXPORT_CHARACTERS,
    )
    older = found[0].seq if found and found[0].seq > 1 else None
    return texts, left_out, _export_rows(found, name_of), older


def _export_rows(found: list[Row], name_of: NameOf) -> tuple[ExportedRow, ...]:
    shown = [row for row in found if row.kind not in LEFT_OUT_KINDS]
    calls = {row.id: row.seq for row in shown if row.kind == "tool.call"}
    return tuple(
        ExportedRow(
            row.seq,
            row.created_at,
            row.kind,
            name_of(row),
            row.content,
            tool=str(row.meta.get("tool", "")),
            call=calls.get(row.parent_row_id or "") if row.kind in rows.CALL_END_KINDS else None,
        )
        for row in shown
    )
