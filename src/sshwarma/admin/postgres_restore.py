"""Restore of a backup into an empty database on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from sshwarma.admin import data_dir_lock, data_dir_modes
from sshwarma.admin.backup_archive import GZIP_MAGIC, InvalidBackupError, unpack_archive
from sshwarma.admin.backup_files import adopt_blobs, find_missing_blobs
from sshwarma.admin.damaged_contents import list_uses, read_uses
from sshwarma.admin.data_dir_owner import check_data_dir_owner
from sshwarma.admin.owners_in_file import count_owners
from sshwarma.admin.postgres_dump import DUMP_NAME, find_program, read_dump
from sshwarma.admin.restore import check_beginning, name_source
from sshwarma.admin.work_directory import make_work_directory
from sshwarma.admin.world_place import PostgresWorld, read_world
from sshwarma.settings import BLOBS_DIRECTORY
from sshwarma.workspaces.used_contents import read_used_sizes
from sshwarma.world.databases import check_driver
from sshwarma.world.migrate import SchemaError, known_revisions, newest_revision


def restore_to_postgres(source: Path | IO[bytes], world: PostgresWorld) -> dict[str, Any]:
    """Restore a backup of a world on PostgreSQL into an empty database.

    Returns:
        The manifest of the backup, with what `restore_backup` adds to it.

    Raises:
        InvalidBackupError: if it is not such a backup, is damaged, or of a newer version.
        SchemaError: if the database is not empty, or cannot be used.
        DumpError: if pg_restore is missing or fails; then the database is as empty as before.
        DataDirInUseError: if a server is running.
    """
    check_driver()
    from sshwarma.world.postgres_copy import opened_in_bulk

    check_data_dir_owner(world.data_dir)
    find_program("pg_restore")
    data_dir_modes.make_data_dir_private(world.data_dir)
    with (
        data_dir_lock.lock_data_dir(world.data_dir),
        make_work_directory(world.data_dir) as work,
    ):
        with opened_in_bulk(world.address.text) as bulk:
            bulk.check_empty()
        name, file = name_source(source, work)
        with file.open("rb") as opened:
            check_beginning(begin := opened.read(16), name)
        if not begin.startswith(GZIP_MAGIC):
            raise InvalidBackupError(
                f"{name} is a copy of a database file, and the settings name a database on"
                " PostgreSQL. Restore it without that setting (SSHWARMA_DATABASE=), then move it:"
                " sshwarma migrate-to postgresql://USER@HOST/NAME. Nothing was changed."
            )
        dump, blobs = work / DUMP_NAME, work / BLOBS_DIRECTORY
        manifest = unpack_archive(file, name, dump, blobs, is_dump=True)
        _check_schema(manifest, name)
        read_dump(dump, world.address)
        with opened_in_bulk(world.address.text) as bulk:
            _compare(manifest, bulk.count_world(), bulk.place)
        adopt_blobs(blobs, world.data_dir)
        missing = find_missing_blobs(read_world(world, read_used_sizes), world.data_dir)
        uses = read_uses(world, missing) if missing else []
        is_newest = manifest["schema"] == newest_revision()
        return manifest | {
            "missing_blobs": len(missing),
            "missing_uses": len(uses),
            "missing_files": list_uses(uses),
            "owners": count_owners(world) if is_newest else None,
            "replaced": None,
            "replaced_logs": [],
        }


def _check_schema(manifest: dict[str, Any], name: str) -> None:
    if manifest.get("schema") not in known_revisions():
        raise InvalidBackupError(
            f"{name} is of a newer version: its schema is {manifest.get('schema')}, and this"
            f" version knows {newest_revision()}. Install that version to restore it. Nothing was"
            " changed."
        )


def _compare(manifest: dict[str, Any], counts: dict[str, Any], place: str) -> None:
    """Compare what a manifest counts with what was restored.

    Raises:
        SchemaError: with the first difference.
    """
    for key, count in counts.items():
        if manifest.get(key) != count:
            raise SchemaError(
                f"{place} has {key} {count} after the restore, and the backup says"
                f" {manifest.get(key)}. Drop the database, and use another backup."
            )
