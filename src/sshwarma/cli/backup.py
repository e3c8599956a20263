"""`sshwarma backup` and `sshwarma restore`."""

from __future__ import annotations

from pathlib import Path

import click

from sshwarma.cli.invocation import Invocation, with_invocation


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@with_invocation
def backup(invocation: Invocation, file: Path) -> int:
    """Write a backup of the world to FILE.

    The backup is consistent, also while the server runs. FILE must not exist.
    """
    from sshwarma.admin.backup import write_backup

    settings = invocation.world_settings()
    manifest = write_backup(settings.database, file)
    size = f"{manifest['bytes']} bytes, schema {manifest['schema']}"
    message = f"Wrote {file}: the world in {settings.data_dir}, {size}"
    return invocation.show(manifest, message)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace an existing world.")
@with_invocation
def restore(invocation: Invocation, file: Path, force: bool) -> int:
    """Restore the data directory from the backup FILE.

    FILE can also be the copy that an upgrade kept, such as world-before-0012.db.
    """
    from sshwarma.admin.restore import restore_backup
    from sshwarma.world.migrate import newest_revision

    settings = invocation.settings()
    manifest = restore_backup(file, settings.data_dir, force=force)
    lines = [f"Restored {settings.database} from {file}"]
    if manifest["replaced"]:
        lines.append(f"The world that was there is kept: {manifest['replaced']}")
    if manifest["schema"] != newest_revision():
        lines.append(f"Its schema is {manifest['schema']}; the next sshwarma serve upgrades it.")
    return invocation.show(manifest, *lines)
