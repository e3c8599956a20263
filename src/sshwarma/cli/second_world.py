"""Refuses a second world that nobody has asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sshwarma.settings import Settings


def is_default_directory(settings: Settings) -> bool:
    """Return whether neither flag, environment nor file has named the data directory."""
    return "data_dir" not in settings.model_fields_set


def refuse_second_world(settings: Settings) -> None:
    """Refuse a world in the default directory inside another, or beside a server.

    The service of a package has its world in its home, where the default directory is, too.

    Raises:
        Conflict: with the directory of the other world.
    """
    from sshwarma.admin.running_worlds import find_running_worlds
    from sshwarma.world.errors import Conflict

    if not is_default_directory(settings) or settings.database:
        return
    if settings.database_file.exists():
        return
    for folder in settings.data_dir.absolute().parents:
        if os.path.lexists(folder / settings.database_file.name):
            raise Conflict(
                f"The directory {folder} contains a world, and the default directory is inside"
                f" of it: {settings.data_dir}.",
                hint=f"Use that world with --data-dir {folder}, or name another directory.",
            )
    if running := find_running_worlds():
        raise Conflict(
            f"{_describe_running(running)}, and {settings.data_dir} contains none.",
            hint=f"To make a second world, name its directory: --data-dir {settings.data_dir}",
        )


def _describe_running(worlds: Sequence[Path]) -> str:
    from sshwarma.common.limits import MAX_NAMED_WORLDS
    from sshwarma.common.shorten import join_with_rest

    if len(worlds) == 1:
        return f"A server is running already, with the world in {worlds[0]}"
    named = join_with_rest([str(path) for path in worlds], MAX_NAMED_WORLDS)
    return f"Servers are running already, with the worlds in {named}"
