"""A world with its upkeep, whose settings and clock a test changes."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from sshwarma.admin import scheduled_backups
from sshwarma.admin.upkeep import Upkeep
from sshwarma.settings import ReloadableSettings
from sshwarma.world.world import World


class Clock:
    """The time of day, which a test moves."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class Upkept:
    """A world with its upkeep, whose settings and clock a test changes."""

    def __init__(self, world: World, data_dir: Path) -> None:
        self.clock, self.settings = Clock(), ReloadableSettings()
        self.upkeep = Upkeep(world, data_dir, self.settings, self.clock)
        self.directory = data_dir / "backups"
        with closing(sqlite3.connect(world.store.path)) as database:
            query = "SELECT created_at FROM things WHERE id = 'world'"
            self.world_id = f"{database.execute(query).fetchone()[0]:x}"

    async def pass_time(self, seconds: float) -> None:
        """Let time pass for the upkeep, and for the backups that exist."""
        self.clock.now += seconds
        await self.upkeep.run_due()

    def list(self) -> list[str]:
        backups = scheduled_backups.BackupDirectory(self.directory, self.world_id)
        return [path.name for path in backups.list_backups(self.clock.now)]


@pytest.fixture
def house(world: World, tmp_path: Path) -> Upkept:
    return Upkept(world, tmp_path)
