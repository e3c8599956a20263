"""The verbs of a room's journal: notes, decisions, ideas and milestones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from sshwarma.common.limits import DEFAULT_HISTORY_ROWS, MAX_PAGE_CHARACTERS
from sshwarma.common.shorten import count_rest
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg, Count, Text
from sshwarma.verbs.history import HistoryEntry, make_history_entry
from sshwarma.verbs.log_rows import make_snippet
from sshwarma.verbs.registry import F, verb
from sshwarma.verbs.views import draw_columns, format_clock, view
from sshwarma.world import rows
from sshwarma.world.access import Right
from sshwarma.world.authors import name_speaker
from sshwarma.world.caller import Caller
from sshwarma.world.errors import empty_error, too_long_error

JournalKind: TypeAlias = Annotated[
    str, Arg(choices=("note", "decision", "idea", "milestone", "all"))
]
"""A kind of entries of a journal, or all."""


@dataclass(frozen=True, slots=True)
class JournalNote:
    """An entry that was added to a journal. `seq`: number of its row in the log."""

    kind: str
    room: str
    seq: int
    text: str


@view(JournalNote)
def draw_journal_note(noted: JournalNote) -> Block:
    """Draw an entry that was added to a journal: of a long one the first line."""
    first_line, *others = noted.text.split("\n")
    rest = [line("  ", ("dim", count_rest(len(others), "line")))] if others else []
    return block(line(("heading", f"[{noted.kind}] "), first_line, hang=2), *rest)


EntryKind: TypeAlias = Literal["note", "decision", "idea", "milestone"]


def entry_verb(name: str, *examples: str, covered_by: str = "note") -> Callable[[F], F]:
    """Declare a verb that adds an entry to the journal of the room.

    New rooms have it equipped as a tool. Models are offered `note` alone, with the kind.
    """
    return verb(
        name,
        section="Remembering",
        needs=Right.TALK,
        examples=examples,
        default=True,
        covered_by=covered_by,
    )


async def add_entry(caller: Caller, kind: EntryKind, text: str, speaker: str = "") -> JournalNote:
    """Append an entry to the journal of the caller's room.

    Args:
        caller: whose entry it is.
        kind: its kind.
        text: the entry.
        speaker: for whom the caller writes it, as `clean_speaker` returns it; "" for itself.

    Raises:
        Invalid: if the text is empty or longer than a line may be.
    """
    content = text.strip()
    if not content:
        raise empty_error("text")
    size = len(content.encode())
    if size > caller.limits.line_bytes:
        raise too_long_error("text", size, caller.limits.line_bytes, "bytes")
    caller.charge_text_volume(size)
    row = await caller.change(
        lambda tx: rows.append_row(
            tx,
            caller.room_id,
            f"journal.{kind}",
            content,
            author_id=caller.agent.id,
            meta=name_speaker(speaker),
            origin=caller.connection,  # its terminal shows the result
        )
    )
    return JournalNote(kind, (await caller.room()).name, row.seq, content)


@entry_verb(
    "note",
    "/note the relay box is 10.0.0.9",
    "/note --kind idea cache the route",
    covered_by="",
)
async def note(caller: Caller, text: Text, *, kind: EntryKind = "note") -> JournalNote:
    """Add a note to the journal.

    For models:
        Add an entry to the journal.

    Args:
        text: what to keep in this room's journal.
        kind: kind of the entry (default note).
    """
    return await add_entry(caller, kind, text)


@entry_verb("decide", "/decide we ship on Friday")
async def decide(caller: Caller, text: Text) -> JournalNote:
    """Add a decision to the journal.

    For models:
        Add a decision to the journal.

    Args:
        text: what was decided.
    """
    return await add_entry(caller, "decision", text)


@entry_verb("idea", "/idea cache the route")
async def idea(caller: Caller, text: Text) -> JournalNote:
    """Add an idea to the journal.

    For models:
        Add an idea to the journal.

    Args:
        text: the idea.
    """
    return await add_entry(caller, "idea", text)


@entry_verb("milestone", "/milestone first green run")
async def milestone(caller: Caller, text: Text) -> JournalNote:
    """Add a milestone to the journal.

    For models:
        Add a milestone to the journal.

    Args:
        text: what was reached.
    """
    return await add_entry(caller, "milestone", text)


@dataclass(frozen=True, slots=True)
class Journal:
    """Entries of a room's journal, oldest first."""

    room: str
    entries: tuple[HistoryEntry, ...]


@view(Journal)
def draw_journal(journal: Journal) -> Block:
    """Draw the entries of a room's journal, one line for each."""
    if not journal.entries:
        return block(line("The journal of ", ("room", journal.room), " is empty."))
    return block(
        line(("heading", f"Journal of {journal.room}:")),
        *draw_columns(
            (
                ("time", format_clock(entry.at)),
                ("heading", entry.kind),
                ("name", entry.who),
                make_snippet(entry.text),
            )
            for entry in journal.entries
        ),
    )


@verb(
    "journal",
    section="Remembering",
    needs=Right.ENTER,
    examples=("/journal", "/journal decision 5"),
    default=True,
    rarely_used=("n",),
)
async def journal(
    caller: Caller,
    kind: JournalKind = "all",
    n: Count = DEFAULT_HISTORY_ROWS,
) -> Journal:
    """Show the journal.

    For models:
        Show the journal of your room.

    Args:
        kind: note, decision, idea, milestone or all (default all).
        n: number of newest entries (default {DEFAULT_HISTORY_ROWS}, at most {MAX_HISTORY_ROWS}).
    """
    room = await caller.room()
    prefix = "journal." if kind == "all" else f"journal.{kind}"
    entries = await caller.world.store.read(
        lambda conn: rows.read_tail(
            conn, room.id, n, prefix=prefix, max_characters=MAX_PAGE_CHARACTERS
        )
    )
    return Journal(
        room.name,
        tuple(
            make_history_entry(caller, row, kind=row.kind.removeprefix("journal."))
            for row in entries
        ),
    )
