"""The rows of the audit as the command and the verb list them."""

from __future__ import annotations

from sqlalchemy import Connection, select

from sshwarma.common.times import format_iso
from sshwarma.world.audit import AuditEntry, AuditFilter, read_audit
from sshwarma.world.audit_row import AuditRow
from sshwarma.world.errors import unknown_name_error
from sshwarma.world.reader import Hint
from sshwarma.world.schema import things
from sshwarma.world.world import World


async def list_audit(
    world: World,
    *,
    name: str | None,
    verbs: tuple[str, ...] | None,
    since: int | None,
    limit: int,
    after: int | None = None,
    about: str | None = None,
    hint: Hint = "",
) -> list[AuditRow]:
    """Return the newest rows that are wanted, the oldest first.

    Args:
        world: the world.
        name: whole name of an agent; those that were removed and had it are meant, too.
        verbs: only rows with one of these verbs.
        since: only rows from this time on, in milliseconds since 1970.
        limit: maximum number of rows.
        after: only rows with a greater number.
        about: only rows whose request has this word, such as a name, of all who had it; also rows
            of these agents under their other names.
        hint: what lists the names, for the refusal of an unknown one.

    Raises:
        NotFound: if nobody has or had that name.
    """
    ids = None
    if name is not None:
        ids = world.agents.find_with_removed(name)
        if not ids:
            known = [agent.name for agent in world.agents]
            raise unknown_name_error("agent", name, known=known, hint=hint)
    wanted = AuditFilter(ids, verbs, since, after, about.removeprefix("@") if about else None)

    def read(conn: Connection) -> tuple[list[AuditEntry], dict[str, str]]:
        entries = read_audit(conn, wanted, limit)
        return entries, _read_room_names(conn, entries)

    entries, rooms = await world.store.read(read)
    return [_name_entry(world, entry, rooms) for entry in entries]


def _read_room_names(conn: Connection, entries: list[AuditEntry]) -> dict[str, str]:
    """Return the names of the rooms of entries by their ids, deleted rooms included."""
    ids = {entry.room_id for entry in entries if entry.room_id is not None}
    found = conn.execute(select(things.c.id, things.c.name).where(things.c.id.in_(ids)))
    return {row.id: row.name for row in found}


def _name_entry(world: World, entry: AuditEntry, rooms: dict[str, str]) -> AuditRow:
    return AuditRow(
        n=entry.n,
        at=format_iso(entry.at),
        agent=world.agents.name_of(entry.agent_id) if entry.agent_id else None,
        os_user=entry.origin.os_user or None,
        room_id=entry.room_id,
        door=entry.door,
        verb=entry.verb,
        request=entry.request,
        address=entry.origin.address or None,
        fingerprint=entry.origin.fingerprint or None,
        room=rooms.get(entry.room_id) if entry.room_id else None,
    )
