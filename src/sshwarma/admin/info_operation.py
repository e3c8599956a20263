"""The operation info: what a world contains, and what takes how much disk."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any, Final

from sqlalchemy import Connection, func, select

import sshwarma
from sshwarma.admin.backup_names import choose_directory
from sshwarma.admin.operation_registry import Json, register_operation
from sshwarma.common.files import measure_tree
from sshwarma.common.times import format_iso
from sshwarma.settings import Settings
from sshwarma.world.free_pages import read_free_pages
from sshwarma.world.migrate import read_revision
from sshwarma.world.schema import attachments, audit, rows, things
from sshwarma.world.world import World

COPIES: Final = ("world-before-*.db", "world-replaced-*.db", "world-rescued-*.db")
"""Copies of the database that are kept until somebody deletes them: of upgrades, restores, and of a
server whose database was gone."""


@register_operation
async def info(world: World, settings: Settings | None, /) -> Json:
    """Counts of the world, and sizes in bytes of what is in its data directory."""
    store = world.store
    facts = await store.read(_read_database)
    counts: dict[str, int] = {}
    for agent in world.agents:
        if agent.retired:
            continue
        counts[agent.kind] = counts.get(agent.kind, 0) + 1
    facts["agents"] = counts
    if settings is not None:
        facts["data_dir"] = str(settings.data_dir)
        sizes = await asyncio.to_thread(_read_sizes, settings)
        if not store.is_file:  # PostgreSQL looks after its own log and unused pages
            del facts["bytes"]["unused"], sizes["log"]
            sizes |= {"database": (await store.read(store.dialect.measure_sizes)).files["db"]}
        facts["bytes"] |= sizes
    if not store.is_file:
        facts["database"] = store.dialect.place
    ends_at = world.draining.ends_at
    facts["draining_until"] = None if ends_at is None else format_iso(ends_at)
    return {"version": sshwarma.__version__, **facts}


def _read_database(conn: Connection) -> dict[str, Any]:
    def count(query: Any) -> int:
        return int(conn.execute(query).scalar_one() or 0)

    free = read_free_pages(conn)
    living_rooms = (things.c.kind == "room", things.c.deleted_at.is_(None))
    return {
        "schema": read_revision(conn),
        "rooms": count(select(func.count()).select_from(things).where(*living_rooms)),
        "things": count(
            select(func.count()).select_from(things).where(things.c.deleted_at.is_(None))
        ),
        "rows": count(select(func.count()).select_from(rows)),
        "audit_rows": count(select(func.count()).select_from(audit)),
        "attachments": count(select(func.count()).select_from(attachments)),
        "bytes": {
            "attachments": count(select(func.sum(attachments.c.size))),
            "unused": free.count * free.page_bytes,
        },
    }


def _read_sizes(settings: Settings) -> dict[str, int]:
    """Return the sizes of files, in bytes; 0 for what does not exist."""
    data_dir, database = settings.data_dir, settings.database_file
    return {
        "database": measure_tree(database),
        "log": measure_tree(database.with_name(f"{database.name}-wal")),
        "blobs": measure_tree(settings.blobs_dir),
        "copies": sum(measure_tree(file) for name in COPIES for file in data_dir.glob(name)),
        "backups": measure_tree(choose_directory(data_dir, settings.backup)),
        "models": measure_tree(data_dir / "models"),
        "mcp": measure_tree(data_dir / "mcp"),
        "disk_free": shutil.disk_usage(data_dir).free,
    }
