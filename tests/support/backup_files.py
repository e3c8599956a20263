"""Backups that are good, and archives of anything."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin.backup import write_backup


def sizes(database: Path) -> dict[str, int]:
    with closing(sqlite3.connect(database)) as opened:
        return {
            table: opened.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("things", "equipped", "rows", "audit")
        }


@pytest.fixture
def database(newborn: Path, tmp_path: Path) -> Path:
    path = tmp_path / "data" / "world.db"
    path.parent.mkdir()
    return Path(shutil.copyfile(newborn, path))


@pytest.fixture
def made(database: Path, tmp_path: Path) -> Path:
    """A good backup."""
    path = tmp_path / "world.tar.gz"
    write_backup(database, path)
    return path


def write(path: Path, *entries: tuple[str | tarfile.TarInfo, bytes]) -> Path:
    """An archive of anything."""
    with tarfile.open(path, "w:gz") as tar:
        for entry, content in entries:
            info = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(entry)
            if info.isfile():
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def manifest_of(content: bytes, **changes: Any) -> bytes:
    received = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return json.dumps(received | changes).encode()
