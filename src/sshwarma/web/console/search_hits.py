"""What a search found, with a link for each row."""

from __future__ import annotations

from typing import Any

from sshwarma.verbs.history import HistoryEntry
from sshwarma.verbs.log_rows import make_snippet
from sshwarma.verbs.search import (
    PRIVATE_LOG,
    SearchResults,
    describe_count,
    name_entry_author,
)
from sshwarma.verbs.views import format_clock
from sshwarma.web.console.frames import message_path, room_path
from sshwarma.world.caller import Caller


def list_hits(caller: Caller, results: SearchResults) -> dict[str, Any]:
    """Return the values of the template `search.html`."""
    hits = [
        (
            entry, *_find_place(caller, entry), format_clock(entry.at),
            name_entry_author(entry, caller.reader), make_snippet(entry.text, results.words),
        )
        for entry in results.entries
    ]  # fmt: skip
    return {"count": describe_count(results), "hits": hits}


def _find_place(caller: Caller, entry: HistoryEntry) -> tuple[str, str]:
    """Return the path of a row, and the name of where it is."""
    if entry.room != PRIVATE_LOG:
        return room_path(entry.room, "row", str(entry.seq)), entry.room
    # Of one's own, whom it was for is not known here.
    is_own = entry.who == caller.agent.name
    return ("/messages" if is_own else message_path(entry.who)), "private message"
