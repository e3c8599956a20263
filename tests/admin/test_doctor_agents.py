"""The doctor on names of people and on the user that it runs as."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin import doctor
from sshwarma.admin.check_result import CheckResult
from sshwarma.settings import load_settings

pytestmark = pytest.mark.process


@pytest.fixture
def data(newborn: Path, tmp_path: Path) -> Path:
    """A data directory with a world in which ann is."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    shutil.copyfile(newborn, path / "world.db")
    with closing(sqlite3.connect(path / "world.db")) as database:
        database.executescript("""
            INSERT INTO things (id, parent_id, kind, name, metadata, created_at, updated_at)
                VALUES ('a', 'agents', 'agent', 'ann', '{"role":"owner"}', 1, 1);
        """)
    return path


def of(data: Path, what: str, **flags: Any) -> CheckResult:
    listen: dict[str, Any] = {"ssh": {"listen": "127.0.0.1:0"}, "http": {"listen": "off"}}
    settings = load_settings(**{"data_dir": data, **listen, **flags})
    (found,) = [one for one in doctor.run_checks(settings) if one.name == what]
    return found


def test_model_with_the_name_of_a_person_fails_as_its_reload_would(data: Path) -> None:
    model = {"kind": "ollama", "model": "qwen3:8b"}
    found = of(data, "model ann", models=[{"name": "ann", **model}])
    assert not found.ok and found.detail == "ann is already the name of a person"
    assert "another name" in found.remedy
    assert of(data, "model qwen", models=[{"name": "qwen", **model}]).ok


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_command_for_the_directory_of_backups_takes_a_user_without_a_name(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (data, *data.iterdir()):
        os.chown(path, 47030, 47030)
    monkeypatch.setattr(os, "geteuid", lambda: 47030)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = of(data, "backups", backup={"every": "1d", "directory": "/no/such/dir"})
    assert "install -d -m 0700 -o 47030 /no/such/dir," in found.remedy
