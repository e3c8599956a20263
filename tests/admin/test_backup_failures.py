"""Backups of the server that failed: what a reload tries, and what is forgotten."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from sshwarma.admin import scheduled_backups
from sshwarma.admin.backup_names import make_backup_name, parse_backup_name
from sshwarma.common.units import DAY_SECONDS, HOUR_SECONDS
from sshwarma.settings import BackupSettings
from support.upkeep import Upkept

DiskUsage = namedtuple("DiskUsage", "total used free")


async def test_reload_forgets_a_failure_in_a_directory_that_settings_name_no_longer(
    house: Upkept, tmp_path: Path
) -> None:
    """The new one is tried at once, although it has a recent backup."""
    good = BackupSettings(every="1d")
    house.settings.backup = good
    await house.upkeep.run_due()
    house.settings.backup = BackupSettings(every="1d", directory=tmp_path / "no" / "such")
    await house.pass_time(HOUR_SECONDS)
    failure = house.upkeep.failure
    assert failure is not None and failure.directory == tmp_path / "no" / "such"
    house.settings.backup = good
    house.upkeep.wake()
    assert house.upkeep.failure is None, "doctor may ask before the next try"
    await house.upkeep.run_due()
    assert len(house.list()) == 2
    house.upkeep.wake()  # a reload that changes nothing of backups
    await house.pass_time(HOUR_SECONDS)
    assert len(house.list()) == 2


async def test_reload_tries_a_failed_backup_again_although_one_is_recent(
    house: Upkept, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.settings.backup = BackupSettings(every="1d")
    await house.upkeep.run_due()
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: DiskUsage(10**9, 10**9, 4096))
        await house.pass_time(1.1 * DAY_SECONDS)
    assert house.upkeep.failure is not None
    house.settings.backup = BackupSettings(every="7d")
    house.upkeep.wake()
    await house.upkeep.run_due()
    assert house.upkeep.failure is None and len(house.list()) == 2


async def test_reload_during_a_backup_that_fails_tries_again(
    house: Upkept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        house.upkeep.wake()
        raise OSError("no such disk")

    house.settings.backup = BackupSettings(every="1d")
    with monkeypatch.context() as failing:
        failing.setattr(scheduled_backups, "write_backup", fail)
        await house.upkeep.run_due()
    assert house.upkeep.failure is not None
    await house.upkeep.run_due()
    assert house.upkeep.failure is None and len(house.list()) == 1


async def test_newer_backup_in_the_directory_ends_a_failure(
    house: Upkept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that an operator has put there."""
    house.settings.backup = BackupSettings(every="1d")
    await house.upkeep.run_due()
    (good,) = house.list()
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: DiskUsage(10**9, 10**9, 4096))
        await house.pass_time(1.1 * DAY_SECONDS)
    assert house.upkeep.failure is not None
    name = parse_backup_name(Path(good))
    assert name is not None
    newer = make_backup_name(name.world_id, house.upkeep.failure.at + 60)
    (house.directory / good).rename(house.directory / newer)
    await house.pass_time(2 * HOUR_SECONDS)
    assert house.upkeep.failure is None
    assert house.list() == [newer]
