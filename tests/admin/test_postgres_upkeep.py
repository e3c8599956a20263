"""Backups that a server makes of a world on PostgreSQL, by itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sshwarma.admin import postgres_dump
from sshwarma.admin.doctor_backups import check_backups
from sshwarma.admin.upkeep import Upkeep
from sshwarma.settings import BackupSettings, ReloadableSettings, Settings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world.databases import DatabaseUrl
from sshwarma.world.world import World
from support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.process]


async def test_server_backs_up_a_world_on_postgres(
    postgres_server: PostgresServer,
    newborn_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tmp_path.chmod(0o700)
    database: DatabaseUrl = postgres_server.create(newborn_database)
    settings = ReloadableSettings()
    settings.backup = BackupSettings(every="1d")
    world = await World.open(database, tool_specs())
    try:
        upkeep = Upkeep(world, tmp_path, settings, database=database)
        await upkeep.run_due()
        [made] = (tmp_path / "backups").glob("world-*.tar.gz")
        assert upkeep.failure is None and upkeep.newest_backup is not None
        of_doctor = Settings(data_dir=tmp_path, database=database.text, backup=settings.backup)
        [check] = check_backups(of_doctor)
        assert check.ok and "the newest 0 min old" in check.detail
        made.unlink()
        monkeypatch.setattr(postgres_dump, "DEBIAN_PROGRAMS", tmp_path)
        monkeypatch.setattr(shutil, "which", lambda name: None)
        monkeypatch.delenv("PGBIN", raising=False)
        await upkeep.run_due()
        assert upkeep.failure is not None
        assert upkeep.failure.reason.startswith("pg_dump is not installed")
        assert not list((tmp_path / "backups").iterdir())
    finally:
        await world.close()
        postgres_server.drop(database)
