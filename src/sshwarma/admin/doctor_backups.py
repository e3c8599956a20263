"""The check of scheduled backups, by `sshwarma doctor` and by a reload."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from sshwarma.admin import data_dir_owner
from sshwarma.admin.backup_names import choose_directory
from sshwarma.admin.check_result import CheckResult
from sshwarma.common.durations import parse_duration
from sshwarma.settings import Settings


def check_backups(settings: Settings) -> Iterator[CheckResult]:
    """Check that backups can be written where the settings say."""
    if settings.backup.directory is None or parse_duration(settings.backup.every) is None:
        return
    directory = choose_directory(settings.data_dir, settings.backup)
    place = next(
        folder for folder in (directory, *directory.absolute().parents) if os.path.lexists(folder)
    )
    if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
        yield CheckResult("backups", True, f"every {settings.backup.every} to {directory}")
        return
    user = data_dir_owner.name_user(os.geteuid())
    owner = data_dir_owner.name_or_number(os.geteuid(), "")
    yield CheckResult(
        "backups",
        False,
        f"{user} cannot write to {place}" if place.is_dir() else f"{place} is not a directory",
        f"install -d -m 0700 -o {owner} {shlex.quote(str(directory))}, and name it in"
        " ReadWritePaths= of the unit",
    )
