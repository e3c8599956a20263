"""What scripts of layers read besides `s`: journal, rows, the room's memory.

Only what the model itself could read: the rows of its window, the journal before them, and the
values that the room keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_LAYER_ROWS, MAX_LAYER_TEXT_CHARACTERS
from sshwarma.world import memory
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.mentions import write_names_plainly
from sshwarma.world.row import Row
from sshwarma.wrap.host import HostCallback
from sshwarma.wrap.window import Window

_JOURNAL: Final = "journal."


def make_layer_calls(caller: Caller, shown: Window) -> HostCallback:
    """Return what answers `host.call` of the scripts of layers.

    Args:
        caller: the model, in its room.
        shown: its window of the log.
    """

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        match name:
            case "journal":
                entries = (*shown.journal, *(r for r in shown.rows if r.kind.startswith(_JOURNAL)))
                return _list_rows(caller, entries, arguments, _JOURNAL)
            case "rows":
                return _list_rows(caller, shown.rows, arguments, "")
            case "memory":
                return await _read_value(caller, arguments.get("key"))
            case _:
                raise Invalid(
                    f"host.call: a layer can read journal, rows and memory, and no {name}."
                )

    return call


def _list_rows(
    caller: Caller, found: Iterable[Row], arguments: dict[str, Any], prefix: str
) -> list[dict[str, Any]]:
    """Return the newest rows, oldest first; of a kind, if one is given.

    Raises:
        Invalid: if an argument is wrong.
    """
    count, kind = arguments.get("n", MAX_LAYER_ROWS), arguments.get("kind")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise Invalid("host.call: n must be a number from 1.")
    agents = caller.world.agents
    chosen = [row for row in found if kind is None or row.kind.removeprefix(prefix) == kind]
    return [
        {
            "seq": row.seq,
            "at": row.created_at,
            "kind": row.kind.removeprefix(prefix),
            "author": agents.name_author(row),
            "text": write_names_plainly(row.content[:MAX_LAYER_TEXT_CHARACTERS], agents),
        }
        for row in chosen[-min(count, MAX_LAYER_ROWS) :]
    ]


async def _read_value(caller: Caller, key: object) -> str | None:
    """Return a value of the room's memory; None without one.

    Raises:
        Invalid: if the key is no text.
    """
    if not isinstance(key, str):
        raise Invalid("host.call: memory needs a key.")

    def read(conn: Connection) -> str | None:
        container = memory.find_session_container(conn, caller.room_id)
        value = memory.find_value(conn, container.id if container else None, key)
        return None if value is None else (value.content or "")[:MAX_LAYER_TEXT_CHARACTERS]

    return await caller.world.store.read(read)
