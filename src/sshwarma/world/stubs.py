"""Keys of texts that a model was sent the start of: `stubs.42` is row 42.

The readers of session memory take such a key as one of theirs. The row has the text, so nothing is
copied, and the key works as long as the row is there, whatever later contexts leave out.
"""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import Connection

from sshwarma.world import rows

STUB_PREFIX: Final = "stubs."
"""What keys of rows begin with."""

_STUB_KEY: Final = re.compile(rf"{re.escape(STUB_PREFIX)}([1-9][0-9]{{0,14}})")


def make_stub_key(seq: int) -> str:
    """Return the key of the row with that number."""
    return f"{STUB_PREFIX}{seq}"


def read_stub(conn: Connection, room_id: str, key: str) -> str | None:
    """Return the whole text of the row that a key names; None if unknown.

    Who may read the room's log may read it, as with `/expand`: the caller checks that right.
    """
    match = _STUB_KEY.fullmatch(key)
    row = rows.read_numbered(conn, room_id, int(match[1])) if match else None
    return None if row is None else row.content
