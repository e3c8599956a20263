"""`sshwarma backup` and `sshwarma restore`."""

from __future__ import annotations

from pathlib import Path

import click

from sshwarma.cli.invocation import Invocation, require_world, with_invocation


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@with_invocation
def backup(invocation: Invocation, file: Path) -> int:
    """Write a backup of the world to FILE.

    The backup is consistent, also while the server runs. FILE must not exist.
    """
    from sshwarma.admin import backup as archive

    settings = invocation.settings()
    require_world(settings)
    manifest = archive.write_backup(settings.database, file)
    message = f"Wrote {file}: {manifest['bytes']} bytes, schema {manifest['schema']}"
    return invocation.show(manifest, message)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing world.")
@with_invocation
def restore(invocation: Invocation, file: Path, force: bool) -> int:
    """Restore the data directory from the backup FILE."""
    from sshwarma.admin import backup as archive

    settings = invocation.settings()
    manifest = archive.restore_backup(file, settings.data_dir, force=force)
    return invocation.show(manifest, f"Restored {settings.database} from {file}")
