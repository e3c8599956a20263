"""`sshwarma vacuum`: gives the space of what was removed back to the disk."""

from __future__ import annotations

import click

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.common.units import MIB


@click.command()
@with_invocation
def vacuum(invocation: Invocation) -> int:
    """Return the unused space of the database to the disk.

    A running server does so in small steps, while people go on; it also does by itself, unless the
    setting retention.vacuum is false. Without a server the database is rebuilt, which needs
    twice its size on disk. A world on PostgreSQL needs none of this.
    """
    from sshwarma.admin.vacuum import rebuild_database
    from sshwarma.world.errors import Conflict

    if invocation.world_settings().database:
        raise Conflict(
            "The world is on PostgreSQL, which uses the space of what was removed again by itself.",
            hint="To give it back to the disk, stop the server and run VACUUM FULL with psql.",
        )
    done = invocation.change_with_or_without_server(
        "vacuum",
        lambda settings: {"returned": rebuild_database(settings.database_file), "is_shrunk": True},
        lambda done: "vacuum",
    )
    later = (
        "" if done.get("is_shrunk", True) else " Its files get smaller later: somebody reads them."
    )
    return invocation.show(done, f"Returned {done['returned'] / MIB:.1f} MiB to the disk.{later}")
