"""`sshwarma init` and `sshwarma migrate`: make a world, and upgrade one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sshwarma.cli.file_argument import check_ends
from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.cli.second_world import refuse_second_world
from sshwarma.cli.termination import exit_on_signals

if TYPE_CHECKING:
    from sshwarma.settings import Settings
    from sshwarma.world.world import World


@click.command()
@click.option("--owner", metavar="NAME", help="Name of the owner; needs --key.")
@click.option(
    "--key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Public key file of the owner.",
)
@with_invocation
def init(invocation: Invocation, owner: str | None, key: Path | None) -> int:
    """Make a new world without starting a server.

    Run it as the user that the server will run as.
    """
    import asyncio

    from sshwarma.admin.data_dir_owner import check_data_dir_owner

    if (owner is None) != (key is None):
        raise click.UsageError("--owner and --key belong together.")
    settings = invocation.settings()
    refuse_second_world(settings)
    check_data_dir_owner(settings.data_dir)
    if key is not None:
        check_ends(key)
    text = key.read_text(encoding="utf-8", errors="replace") if key is not None else ""
    result = asyncio.run(_create_world(settings, owner, text))
    place = settings.database or settings.data_dir
    lines = [f"Created a world in {place}"]
    if owner is not None:
        lines.append(f"{owner} is its owner, with {result['fingerprint']}")
    else:
        lines.append("Add its owner: sshwarma keys add NAME FILE --role owner")
    return invocation.show(result, *lines)


async def _create_world(settings: Settings, owner: str | None, key: str) -> dict[str, str | None]:
    """Create the world, with its owner if one is named."""
    from sshwarma.admin import data_dir_lock, data_dir_modes
    from sshwarma.admin.key_operations import read_public_keys
    from sshwarma.admin.lost_world import check_no_world_was_lost
    from sshwarma.admin.upgrade import check_free
    from sshwarma.admin.work_directory import make_work_directory
    from sshwarma.cli.offline import open_offline
    from sshwarma.common.files import give_name, store_on_disk
    from sshwarma.world.move_mark import check_not_moved
    from sshwarma.world.names import check_person_name

    if owner is not None:
        check_person_name(owner)  # refused before anything is made
        read_public_keys(key)
    if settings.database:
        check_free(settings)
        data_dir_modes.make_data_dir_private(settings.data_dir)
        async with open_offline(settings) as world:
            fingerprint = await _add_owner(world, owner, key)
        return {"data_dir": str(settings.data_dir), "owner": owner, "fingerprint": fingerprint}
    check_not_moved(settings.database_file)
    if settings.database_file.exists():
        raise FileExistsError(f"The directory {settings.data_dir} already contains a world.")
    check_no_world_was_lost(settings.database_file)
    data_dir_modes.make_data_dir_private(settings.data_dir)
    with (
        data_dir_lock.lock_data_dir(settings.data_dir),
        make_work_directory(settings.data_dir) as work,
    ):
        place = work / "draft"  # the work directory has a lock of its own
        place.mkdir(mode=0o700)
        draft = settings.model_copy(update={"data_dir": place})
        async with open_offline(draft) as world:
            fingerprint = await _add_owner(world, owner, key)
        give_name(
            draft.database_file, settings.database_file
        )  # complete: it may be killed before, and after
        store_on_disk(settings.data_dir)
    return {"data_dir": str(settings.data_dir), "owner": owner, "fingerprint": fingerprint}


async def _add_owner(world: World, owner: str | None, key: str) -> str | None:
    """Record the creation of a world, and add its owner, whose key is returned."""
    from sshwarma.admin.operations import run_operation

    await run_operation(world, "record_command", {"action": "init"})
    if owner is None:
        return None
    arguments = {"name": owner, "public_key": key, "role": "owner"}
    added = await run_operation(world, "keys_add", arguments)
    return str(added["fingerprint"])


@click.command()
@with_invocation
def migrate(invocation: Invocation) -> int:
    """Upgrade the world to the schema of this version.

    The database is copied beside first, to world-before-NNNN.db. Delete the copy when the new
    version has proved itself. sshwarma serve does the same at its start, but not on PostgreSQL:
    there nothing is copied, so make a backup first.
    """
    from sshwarma.admin.data_dir_lock import lock_data_dir
    from sshwarma.admin.upgrade import upgrade_database, upgrade_postgres
    from sshwarma.world.migrate import newest_revision

    exit_on_signals()
    settings = invocation.world_settings()
    if settings.database:
        before, after = upgrade_postgres(settings)
        record: dict[str, str | None] = {"before": before, "after": after, "copy": None}
        if before == after:
            return invocation.show(record, f"{settings.database} is at schema {after}.")
        invocation.record(settings, f"migrate {before} to {after}")
        line = f"Upgraded {settings.database} from schema {before} to {after}."
        return invocation.show(record, line)
    with lock_data_dir(settings.data_dir):
        upgrade = upgrade_database(settings.database_file)
    if upgrade is None:
        record = {"before": newest_revision(), "after": newest_revision(), "copy": None}
        return invocation.show(
            record, f"{settings.database_file} is at schema {newest_revision()}."
        )
    invocation.record(settings, f"migrate {upgrade.before} to {upgrade.after}")
    record = {"before": upgrade.before, "after": upgrade.after, "copy": str(upgrade.copy)}
    return invocation.show(
        record,
        f"Upgraded {settings.database_file} from schema {upgrade.before} to {upgrade.after}.",
        f"The copy from before is {upgrade.copy}. Delete it when this version has proved itself.",
    )
