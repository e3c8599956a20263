"""The check of the contents of rooms' files, by `sshwarma doctor`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from sshwarma.admin.backup_files import find_missing_blobs
from sshwarma.admin.check_result import CheckResult
from sshwarma.admin.damaged_contents import describe_count, describe_uses, list_uses, read_uses
from sshwarma.admin.world_place import (
    PostgresWorld,
    UnreadableWorldError,
    find_place,
    read_world,
)
from sshwarma.common.units import MIB
from sshwarma.settings import Settings
from sshwarma.workspaces.used_contents import read_sizes_in_file, read_used_sizes


def check_files(settings: Settings, restore: str) -> Iterator[CheckResult]:
    """Check that the contents of the rooms' files are there, if there are any.

    Their sizes are compared; a backup compares what is in them, which takes longer.

    Args:
        settings: of the world.
        restore: how to replace a damaged database.
    """
    place = find_place(settings)
    try:
        if isinstance(place, PostgresWorld):
            sizes = read_world(place, read_used_sizes)
        else:
            sizes = read_sizes_in_file(place)
        missing = find_missing_blobs(sizes, settings.data_dir)
        uses = read_uses(place, missing) if missing else []
    except (sqlite3.DatabaseError, UnreadableWorldError, ValueError) as error:
        yield CheckResult("files", False, str(error), restore)
        return
    except OSError as error:
        problem = f"{error.filename} cannot be opened: {error.strerror}"
        yield CheckResult("files", False, problem, "see to its disk, its owner and its mode")
        return
    if missing:
        count = describe_count(len(missing), len(sizes))
        yield CheckResult(
            "files",
            False,
            f"{count} missing or damaged: {describe_uses(uses)}",
            f"copy them to {settings.blobs_dir} from another disk or a backup, or put the same"
            " files into a room again; until then, sshwarma backup needs --without-damaged",
            items=list_uses(uses),
        )
    elif sizes:
        detail = f"{len(sizes)} contents, {sum(sizes.values()) // MIB} MiB"
        yield CheckResult("files", True, detail)
