"""The check of scheduled backups, by `sshwarma doctor` and by a reload."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy.exc import NoResultFound

from sshwarma.admin import data_dir_owner
from sshwarma.admin.backup_names import choose_directory
from sshwarma.admin.check_result import CheckResult, warn
from sshwarma.admin.doctor_server import ask_server
from sshwarma.admin.scheduled_backups import BackupDirectory, measure_needed_room
from sshwarma.admin.world_place import (
    UnreadableWorldError,
    WorldPlace,
    find_place,
    read_world,
)
from sshwarma.common.durations import parse_duration
from sshwarma.common.units import HOUR_SECONDS, MIB
from sshwarma.common.user_names import name_user
from sshwarma.settings import Settings
from sshwarma.world.errors import WorldError
from sshwarma.world.identity import read_world_id

LATE_INTERVALS: Final = 2
"""Intervals after which the newest backup is too old: one may wait for a server to start."""


def check_made_backups(settings: Settings) -> Iterator[CheckResult]:
    """Check backups by the settings and by what a running server has met.

    A server may have settings that this command was not given.
    """
    found = list(check_backups(settings))
    failure = ask_server(settings.data_dir, "backup_failure")
    if failure is None or not all(check.ok for check in found):
        yield from found
        return
    yield CheckResult(
        "backups",
        False,
        f"the last one of the server, to {failure['directory']}, failed at {failure['failed_at']}:"
        f" {str(failure['reason']).rstrip('.')}",
        "mend that; the server tries again within an hour, and at once after: sshwarma reload",
    )


def check_backups(settings: Settings) -> Iterator[CheckResult]:
    """Check that backups can be written by the settings, and are made."""
    interval = parse_duration(settings.backup.every)
    if interval is None:
        return
    directory = choose_directory(settings.data_dir, settings.backup)
    try:
        obstacle = _find_obstacle(directory, settings)
        yield obstacle or _check_age(directory, settings, interval)
    except OSError as error:
        detail = f"{error.filename} cannot be read: {error.strerror}"
        yield CheckResult("backups", False, detail, "see to its disk, its owner and its mode")


def _find_obstacle(directory: Path, settings: Settings) -> CheckResult | None:
    """Return why no backup can be written to a directory, or None."""
    place = next(
        folder for folder in (directory, *directory.absolute().parents) if os.path.lexists(folder)
    )
    if not place.is_dir():
        remedy = "name a directory in directory under [backup]"
        return CheckResult("backups", False, f"{place} is not a directory", remedy)
    user = name_user(os.geteuid())
    owner = data_dir_owner.name_or_number(os.geteuid(), "")
    make = f"install -d -m 0700 -o {owner} {shlex.quote(str(directory))}, and name it in"
    make += " ReadWritePaths= of the unit"
    parent = directory.absolute().parent
    if not parent.exists() and parent != settings.data_dir.absolute():  # a server does not make it
        remedy = f"mount its disk if it has one; or {make}"
        return CheckResult("backups", False, f"{parent} does not exist", remedy)
    needed_rights = os.W_OK | os.X_OK | (os.R_OK if place == directory else 0)
    if not os.access(place, needed_rights):
        return CheckResult("backups", False, f"{user} cannot write to {place}", make)
    world = find_place(settings)
    if isinstance(world, Path) and not world.is_file():
        return None
    try:
        needed = measure_needed_room(world)
    except UnreadableWorldError:  # the check of the database reports it
        return None
    free = shutil.disk_usage(place).free
    if needed <= free:
        return None
    return CheckResult(
        "backups",
        False,
        f"the next one needs {needed // MIB + 1} MiB, and {free // MIB} MiB are free in {place}",
        "make room there, or name another directory in directory under [backup]",
    )


def _check_age(directory: Path, settings: Settings, interval: int) -> CheckResult:
    """Say how old the newest backup of this world is, and whether that is too old."""
    detail = f"every {settings.backup.every} to {directory}"
    world_id = _read_world_id(find_place(settings))
    if world_id is None:
        return CheckResult("backups", True, detail)
    now = time.time()
    newest = BackupDirectory(directory, world_id).find_newest(now)
    made_at = int(world_id, 16) / 1000 if newest is None else newest.made_at
    if newest is None:
        detail += ", none of this world yet"
    else:
        detail += f", the newest {_describe_age(now - newest.made_at)} old"
    if now - made_at > LATE_INTERVALS * interval:
        return warn(
            "backups",
            detail,
            "if the server runs with these settings, its log has the reason: journalctl -u sshwarma"
            " -g backup",
        )
    if newest is not None and not newest.is_complete:
        remedy = "see to what is said of files; the backups before are kept"
        return warn("backups", f"{detail}, and without some contents of files", remedy)
    return CheckResult("backups", True, detail)


def _describe_age(seconds: float) -> str:
    hours = int(seconds) // HOUR_SECONDS
    if hours < 1:
        return f"{int(seconds) // 60} min"
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def _read_world_id(world: WorldPlace) -> str | None:
    """Return the id of a world; None if it cannot be read."""
    if isinstance(world, Path) and not world.is_file():
        return None
    try:
        return read_world(world, read_world_id)
    except (UnreadableWorldError, NoResultFound, WorldError):  # another check reports it
        return None
