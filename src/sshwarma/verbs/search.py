"""The verb search: full-text search in all logs that the caller may read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from sqlalchemy import Connection

from sshwarma.common.limits import DEFAULT_HISTORY_ROWS, MAX_PAGE_CHARACTERS
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.arguments import Count, Flag, RoomName, Words
from sshwarma.verbs.history import HistoryEntry, make_history_entry
from sshwarma.verbs.log_rows import make_snippet
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, draw_hint, format_clock, view_for_reader
from sshwarma.world import search
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import Reader
from sshwarma.world.row import Row

PRIVATE_LOG: Final = "(private)"
"""The name of the room of a private message."""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Rows that match a search, newest first. `more`: whether older rows match too.

    `peer`: with whom the caller has shared the newest row in private; "" if it is of a room.
    """

    words: str
    entries: tuple[HistoryEntry, ...]
    more: bool = False
    peer: Annotated[SkipJsonSchema[str], Field(exclude=True)] = ""


def describe_count(results: SearchResults) -> str:
    """Return how many rows were found."""
    count = len(results.entries)
    return f"The newest {count} matches" if results.more else f"Found {count}, newest first"


@view_for_reader(SearchResults)
def draw_search_results(results: SearchResults, reader: Reader) -> Block:
    """Draw the rows that match a search, each cut to one line around a match."""
    if not results.entries:
        return block(line(f"The search found nothing: {results.words}."))
    return block(
        line(("heading", f"{describe_count(results)}:")),
        *draw_columns(
            (
                ("time", format_clock(entry.at)),
                ("room", entry.room),
                f"#{entry.seq}",
                ("name", name_entry_author(entry, reader)),
                ("dim" if entry.dropped else "text", make_snippet(entry.text, results.words)),
            )
            for entry in results.entries
        ),
        *([line(("dim", "More rows match; a larger n shows them."))] if results.more else ()),
        *_draw_way_to_context(reader, results.entries[0].seq, results.peer),
    )


def name_entry_author(entry: HistoryEntry, reader: Reader) -> str:
    """Return who said a row; of a call or its result, the tool and who called it."""
    if not entry.kind.startswith("tool."):
        return entry.who
    tool = str((entry.meta or {}).get("tool", ""))
    return f"{reader.name_tool(tool) if tool else 'a tool'} for {entry.who}"


def _draw_way_to_context(reader: Reader, seq: int, peer: str) -> list[Line]:
    """Draw the call that shows the rows around a row; `peer` has shared it.

    It shows rows up to it for those who are offered only that.
    """
    if peer:
        private = "{} shows your private messages around the newest."
        return draw_hint(reader, private, "history show", agent=f"@{peer}", at=seq)
    around = "In its room, {} shows the rows around the newest."
    up_to = "In its room, {} shows the rows up to the newest."
    return draw_hint(reader, around, "history show", at=seq) or draw_hint(
        reader, up_to, "history show", before=seq + 1
    )


@verb(
    "search",
    section="Remembering",
    examples=(
        "/search relay box",
        '/search "exact words"',
        "/search relay --n 50",
        "/search relay --only workshop",
    ),
    namespace="global",
    rarely_used=("n", "only", "dropped"),
)
async def search_logs(
    caller: Caller,
    text: Words,
    *,
    n: Count = DEFAULT_HISTORY_ROWS,
    only: RoomName | None = None,
    dropped: Flag = False,
) -> SearchResults:
    """Find rows by their words.

    Searches every room you may enter and your private messages, newest first. A row must have all
    the words; the last may be the start of one; double quotes keep words together. Dropped rows
    are left out, and so are calls of this search.

    For models:
        Find the newest rows with all these words.

    Args:
        text: the words.
        n: number of rows (default {DEFAULT_HISTORY_ROWS}, at most {MAX_HISTORY_ROWS}).
        only: the room whose rows are searched (default: every room, and private messages).
        dropped: also rows that were dropped.
    """
    if not search.build_fts_query(text):
        raise Invalid(
            "The text to search for must contain a word.",
            hint='Use words such as relay box, or "exact words".',
        )
    world = caller.world
    names = {room.id: room.name for room in await caller.readable_rooms()}
    if only is not None:
        wanted = (await caller.in_room(only)).room_id
        logs = [room_id for room_id in names if room_id == wanted]
    else:
        logs = [*names, *await caller.readable_private_logs()]
    await world.index_rows()

    def look(conn: Connection) -> list[search.SearchHit]:
        return search.search_rows(conn, text, logs, n + 1, dropped=dropped)

    hits = await world.store.read_search(look)
    return SearchResults(
        text,
        tuple(
            replace(
                make_history_entry(caller, hit.row, room=names.get(hit.row.room_id, PRIVATE_LOG)),
                turn=hit.turn_id,
                dropped=hit.dropped,
            )
            for hit in hits[:n]
        ),
        peer=_find_peer(caller, hits[0].row) if hits else "",
        more=len(hits) > n or sum(len(hit.row.content) for hit in hits) > MAX_PAGE_CHARACTERS,
    )


def _find_peer(caller: Caller, row: Row) -> str:
    """Return with whom the caller has shared a row; "" if it is of a room."""
    if row.kind != "tell":
        return ""
    other = row.author_id if row.author_id != caller.agent.id else (row.meta or {}).get("to")
    return caller.world.agents.name_of(other) if other else ""
