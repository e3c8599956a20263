"""`sshwarma backup` and `sshwarma restore`."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from sshwarma.cli.failures import STANDARD_STREAM
from sshwarma.cli.file_argument import FileArgument, check_ends
from sshwarma.cli.invocation import Invocation, ask_server_of, with_invocation
from sshwarma.cli.printed_lines import print_lines
from sshwarma.cli.second_world import refuse_second_world
from sshwarma.cli.streams import STANDARD_OUTPUT, closed_streams
from sshwarma.cli.termination import exit_on_signals
from sshwarma.common.exit_status import EXIT_OK

if TYPE_CHECKING:
    from sshwarma.admin.world_place import WorldPlace
    from sshwarma.settings import Settings


@click.command()
@click.argument("file", type=FileArgument(path_type=Path))
@click.option(
    "--without-damaged",
    is_flag=True,
    help="Leave out contents of files that are missing or damaged, and say which.",
)
@with_invocation
def backup(invocation: Invocation, file: Path, without_damaged: bool) -> int:
    """Write a backup of the world to FILE.

    The backup is consistent, also while the server runs. FILE must not exist; - is standard output,
    to which the backup is written when it is complete.
    """
    exit_on_signals()
    with _find_world(invocation) as (settings, world):
        if str(file) == STANDARD_STREAM:
            return _write_to_stdout(invocation, settings, world, without_damaged)
        manifest = _write(world, file, without_damaged)
    invocation.record(settings, f"backup {file.absolute()}")
    _warn_of_left_out(manifest)
    record = manifest | {"file": str(file.absolute()), "world": str(settings.data_dir)}
    return invocation.show(record, _describe(str(file), settings, manifest))


def _write(world: WorldPlace, file: Path, without_damaged: bool) -> dict[str, Any]:
    """Write a backup to a file; return its manifest."""
    from sshwarma.admin.backup import write_backup, write_partial_backup

    return (write_partial_backup if without_damaged else write_backup)(world, file)


def _warn_of_left_out(manifest: dict[str, Any]) -> None:
    """Say on standard error what a backup lacks, if it lacks something."""
    from sshwarma.admin.damaged_contents import describe_count, describe_listed

    if left_out := manifest.get("left_out"):
        count = describe_count(left_out["contents"])
        text = f"Warning: {count} missing or damaged, and not in this backup"
        files = describe_listed(left_out["files"], left_out["uses"])
        print_lines([f"{text}: {files}"], to_stderr=True)


@contextlib.contextmanager
def _find_world(invocation: Invocation) -> Iterator[tuple[Settings, WorldPlace]]:
    """Return the settings of a world, and where it is.

    If its file is gone, and a running server still has it, it is a copy which the server makes.
    """
    from sshwarma.admin.data_dir_owner import check_data_dir_owner
    from sshwarma.admin.lost_world import HeldWorldError
    from sshwarma.admin.world_place import find_place

    try:
        settings = invocation.world_settings()
    except HeldWorldError as error:
        settings = invocation.settings()
        check_data_dir_owner(settings.data_dir)
        copy = Path(ask_server_of(settings, "copy_database", {})["copy"])
        print_lines([f"{error.finding}. It has made the copy for this backup."], to_stderr=True)
        try:
            yield settings, copy
        finally:
            copy.unlink(missing_ok=True)
    else:
        check_data_dir_owner(settings.data_dir)
        yield settings, find_place(settings)


def _write_to_stdout(
    invocation: Invocation, settings: Settings, world: WorldPlace, without_damaged: bool
) -> int:
    """Write a backup to standard output, and about it to standard error."""
    from sshwarma.admin.work_directory import make_work_directory
    from sshwarma.common.files import is_on_read_only_disk

    if sys.stdout.isatty():
        raise click.UsageError("A backup is not text. Redirect it: sshwarma backup - > FILE")
    if STANDARD_OUTPUT in closed_streams:
        raise click.UsageError("Standard output is closed. Name a file: sshwarma backup FILE")
    # A disk that has become read-only is a reason for a backup.
    is_read_only = is_on_read_only_disk(settings.data_dir)
    place = Path(tempfile.gettempdir()) if is_read_only else settings.data_dir
    with make_work_directory(place) as work:
        archive = work / "backup.tar.gz"
        manifest = _write(world, archive, without_damaged)
        with archive.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    invocation.record(settings, f"backup {STANDARD_STREAM}")
    _warn_of_left_out(manifest)
    text = _describe("standard output", settings, manifest)
    record = manifest | {"file": None, "world": str(settings.data_dir)}
    print_lines([json.dumps(record, indent=2) if invocation.as_json else text], to_stderr=True)
    return EXIT_OK


def _describe(file: str, settings: Settings, manifest: dict[str, Any]) -> str:
    size = f"schema {manifest['schema']}, a database of {manifest['bytes']:,} bytes"
    blobs, blob_bytes = manifest["blobs"], manifest["blob_bytes"]
    files = f", {blobs} contents of files with {blob_bytes:,} bytes" if blobs else ""
    return f"Wrote {file}: the world in {settings.data_dir}, {size}{files}"


@click.command()
@click.argument("file", type=FileArgument(path_type=Path, readable=False))
@click.option("--force", is_flag=True, help="Replace an existing world.")
@with_invocation
def restore(invocation: Invocation, file: Path, force: bool) -> int:
    """Restore the data directory from the backup FILE.

    A backup of a world on PostgreSQL is restored into the database that the settings name, which
    must be empty. FILE can also be the copy that an upgrade kept, such as world-before-0012.db, or
    - for a backup on standard input.
    """
    from sshwarma.admin.data_dir_owner import check_data_dir_owner
    from sshwarma.world.migrate import newest_revision

    exit_on_signals()
    settings = invocation.settings()
    refuse_second_world(settings)
    source = sys.stdin.buffer if str(file) == STANDARD_STREAM else file
    check_data_dir_owner(settings.data_dir)
    if isinstance(source, Path):
        check_ends(source, may_be_device=True)  # what does not begin as a backup is refused
    manifest = _restore(source, settings, force=force)
    made_at = f" of {manifest['made_at']}" if "made_at" in manifest else ""
    is_newest = manifest["schema"] == newest_revision()
    if is_newest:
        invocation.record(settings, f"restore {file}{made_at}")
    origin = "standard input" if str(file) == STANDARD_STREAM else file
    lines = [f"Restored {settings.database or settings.database_file} from {origin}"]
    if manifest["replaced"]:
        lines.append(f"The world that was there is kept: {manifest['replaced']}")
    if manifest["replaced_logs"]:
        logs = ", ".join(manifest["replaced_logs"])
        lines.append(f"The log of a world whose database is gone is kept: {logs}")
    if missing := manifest["missing_blobs"]:
        lines.append(_describe_missing(missing, manifest))
    if manifest.get("without_log"):
        lines.append(
            f"{origin} is a plain copy of a database, without the log world.db-wal. If its server"
            " ran, rows newer than its last checkpoint may be missing. sshwarma backup makes whole"
            " copies."
        )
    if manifest["owners"] == 0:
        lines.append(
            "Nobody in it can log in as an owner. If it was copied while its server ran, it lacks"
            " what was beside it: copy it by sshwarma backup. Else make an owner: sshwarma recover"
            f" NAME FILE --data-dir {shlex.quote(str(settings.data_dir))}"
        )
    if not is_newest:
        lines.append(
            f"Its schema is {manifest['schema']}: install the version that it is of, or let"
            f" sshwarma {'migrate' if settings.database else 'serve'} upgrade it. The audit of such"
            " a world has no row of this restore."
        )
    return invocation.show(manifest, *lines)


def _restore(source: Path | IO[bytes], settings: Settings, *, force: bool) -> dict[str, Any]:
    """Restore a backup where the settings say; return its manifest.

    Raises:
        Conflict: if a database on PostgreSQL should be replaced.
    """
    from sshwarma.admin.postgres_restore import restore_to_postgres
    from sshwarma.admin.restore import restore_backup
    from sshwarma.admin.world_place import PostgresWorld, find_place
    from sshwarma.world.errors import Conflict

    place = find_place(settings)
    if not isinstance(place, PostgresWorld):
        return restore_backup(source, settings.data_dir, force=force)
    if force:
        raise Conflict(
            "A database on PostgreSQL is never replaced: --force is for a world in a file.",
            hint="Create an empty database with createdb, name it in the settings, and restore.",
        )
    return restore_to_postgres(source, place)


def _describe_missing(count: int, manifest: dict[str, Any]) -> str:
    """Say which contents of files a restored world lacks, and where they may be."""
    from sshwarma.admin.damaged_contents import describe_count, describe_listed
    from sshwarma.settings import BLOBS_DIRECTORY

    files = describe_listed(manifest["missing_files"], manifest["missing_uses"])
    if "left_out" in manifest:
        origin = (
            "It was missing or damaged when the backup was made, and an older backup may have it"
        )
    else:
        origin = (
            f"They are in the directory {BLOBS_DIRECTORY} of the data directory that it is from:"
            " copy that one here"
        )
    return f"{describe_count(count)} not in it: {files}. {origin}."
