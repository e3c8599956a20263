"""`sshwarma backup` and `sshwarma restore`."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sshwarma.cli.invocation import Invocation, print_lines, refuse_second_world, with_invocation
from sshwarma.common.exit_status import EXIT_OK

if TYPE_CHECKING:
    from sshwarma.settings import Settings

STANDARD_STREAM: Final = "-"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@with_invocation
def backup(invocation: Invocation, file: Path) -> int:
    """Write a backup of the world to FILE.

    The backup is consistent, also while the server runs. FILE must not exist; - is standard output,
    to which the backup is written when it is complete.
    """
    from sshwarma.admin.backup import write_backup

    settings = invocation.world_settings()
    if str(file) == STANDARD_STREAM:
        return _write_to_stdout(invocation, settings)
    manifest = write_backup(settings.database, file)
    invocation.record(settings, f"backup {file.absolute()}")
    return invocation.show(manifest, _describe(file, settings, manifest))


def _write_to_stdout(invocation: Invocation, settings: Settings) -> int:
    """Write a backup to standard output, and about it to standard error."""
    from sshwarma.admin.backup import WORK_PREFIX, write_backup

    if sys.stdout.isatty():
        raise click.UsageError("A backup is not text. Redirect it: sshwarma backup - > FILE")
    with tempfile.TemporaryDirectory(dir=settings.data_dir, prefix=WORK_PREFIX) as work:
        archive = Path(work) / "backup.tar.gz"
        manifest = write_backup(settings.database, archive)
        with archive.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    invocation.record(settings, f"backup {STANDARD_STREAM}")
    text = _describe(Path("standard output"), settings, manifest)
    print_lines([json.dumps(manifest, indent=2) if invocation.as_json else text], to_stderr=True)
    return EXIT_OK


def _describe(file: Path, settings: Settings, manifest: dict[str, Any]) -> str:
    size = f"{manifest['bytes']} bytes, schema {manifest['schema']}"
    return f"Wrote {file}: the world in {settings.data_dir}, {size}"


@contextlib.contextmanager
def _as_file(file: Path, data_dir: Path) -> Iterator[Path]:
    """Return the file, or a temporary one with what standard input has."""
    from sshwarma.admin.data_dir_modes import make_data_dir_private

    if str(file) != STANDARD_STREAM:
        yield file
        return
    make_data_dir_private(data_dir)
    with tempfile.NamedTemporaryFile(dir=data_dir, prefix=".sshwarma-restore-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing world.")
@with_invocation
def restore(invocation: Invocation, file: Path, force: bool) -> int:
    """Restore the data directory from the backup FILE.

    FILE can also be the copy that an upgrade kept, such as world-before-0012.db, or - for a backup
    on standard input.
    """
    from sshwarma.admin.restore import restore_backup
    from sshwarma.world.migrate import newest_revision

    settings = invocation.settings()
    refuse_second_world(settings)
    with _as_file(file, settings.data_dir) as source:
        manifest = restore_backup(source, settings.data_dir, force=force)
    made_at = f" of {manifest['made_at']}" if "made_at" in manifest else ""
    invocation.record(settings, f"restore {file}{made_at}")
    lines = [f"Restored {settings.database} from {file}"]
    if manifest["replaced"]:
        lines.append(f"The world that was there is kept: {manifest['replaced']}")
    if manifest["schema"] != newest_revision():
        lines.append(f"Its schema is {manifest['schema']}; the next sshwarma serve upgrades it.")
    return invocation.show(manifest, *lines)
