"""Restore of archives and databases that strangers have made."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from sshwarma.admin import data_dir_lock
from sshwarma.admin.restore import InvalidBackupError, restore_backup
from support.backups import database, made, manifest_of, write_archive

__all__ = ["database", "made"]


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def directory(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info


HOSTILE: dict[str, list[tuple[str | tarfile.TarInfo, bytes]]] = {
    "empty": [],
    "only a manifest": [("manifest.json", manifest_of(b""))],
    "no manifest": [("world.db", b"x")],
    "wrong order": [("world.db", b"x"), ("manifest.json", manifest_of(b"x"))],
    "up and out": [("manifest.json", manifest_of(b"x")), ("../world.db", b"x")],
    "absolute": [("manifest.json", manifest_of(b"x")), ("/tmp/world.db", b"x")],
    "a link": [("manifest.json", manifest_of(b"")), (link("world.db", "/etc/passwd"), b"")],
    "a hard link": [
        ("manifest.json", manifest_of(b"", bytes=0)),
        (link("world.db", "/etc/passwd", tarfile.LNKTYPE), b""),
    ],
    "a linked manifest": [(link("manifest.json", "/etc/passwd"), b""), ("world.db", b"x")],
    "a manifest that is a directory": [(directory("manifest.json"), b""), ("world.db", b"x")],
    "a database that is a directory": [
        ("manifest.json", manifest_of(b"", bytes=0)), (directory("world.db"), b""),
    ],
    "a manifest that is a list": [("manifest.json", b"[]"), ("world.db", b"x")],
    "a manifest that is no json": [("manifest.json", b"{"), ("world.db", b"x")],
    "a manifest of deep json": [("manifest.json", b"[" * 60_000), ("world.db", b"x")],
    "a manifest that is not utf-8": [("manifest.json", b"\xff\xfe\xff"), ("world.db", b"x")],
    "a huge manifest": [("manifest.json", b" " * 70_000), ("world.db", b"x")],
    "another size": [("manifest.json", manifest_of(b"x", bytes=2)), ("world.db", b"x")],
    "another hash": [("manifest.json", manifest_of(b"x", sha256="0")), ("world.db", b"x")],
    "no database at all": [("manifest.json", manifest_of(b"text")), ("world.db", b"text")],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_invalid_backup_is_refused_and_writes_nothing(tmp_path: Path, name: str) -> None:
    bad = write_archive(tmp_path / "bad.tar.gz", *HOSTILE[name])
    target = tmp_path / "deep" / "data"
    with pytest.raises(InvalidBackupError, match=r"bad\.tar\.gz"):
        restore_backup(bad, target)
    assert [path.name for path in target.iterdir()] == [data_dir_lock.LOCK_NAME]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tar.gz", "deep"]


def test_size_below_zero_is_refused(made: Path, tmp_path: Path) -> None:
    """Skipping such an entry would go back, and read it for ever."""
    header = tarfile.TarInfo("x")
    block = bytearray(header.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = b"\xff" * 10 + b"\xfc\x00"  # base 256: -1024
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(gzip.compress(bytes(block)))
    with pytest.raises(InvalidBackupError, match="an entry is no file"):
        restore_backup(bad, tmp_path / "new")


def test_sparse_entry_is_refused_before_tarfile_reads_its_map(tmp_path: Path) -> None:
    bad = tmp_path / "bad.tar.gz"
    entry = tarfile.TarInfo("manifest.json")
    entry.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    with tarfile.open(bad, "w:gz") as tar:
        tar.addfile(entry)
    with pytest.raises(InvalidBackupError, match="an entry is a sparse file"):
        restore_backup(bad, tmp_path / "new")
    with tarfile.open(bad, "w:gz") as tar:
        for number in range(10):
            tar.addfile(tarfile.TarInfo(f"{number}"))
    with pytest.raises(InvalidBackupError, match="more than 8 headers"):
        restore_backup(bad, tmp_path / "new")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            "CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM audit; END",
            "contains a trigger",
        ),
        (
            "DROP TABLE alembic_version;"
            " CREATE VIEW alembic_version AS WITH RECURSIVE n(version_num) AS"
            " (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT max(version_num) AS version_num FROM n",
            "it has no table alembic_version",
        ),
        ("DELETE FROM alembic_version", "its table alembic_version is empty"),
        ("UPDATE things SET metadata = '{{{' WHERE id = 'lobby'", "thing lobby is not JSON"),
    ],
)
def test_database_that_a_stranger_has_changed_is_refused(
    database: Path, tmp_path: Path, change: str, reason: str
) -> None:
    changed = tmp_path / "changed.db"
    shutil.copy(database, changed)
    with closing(sqlite3.connect(changed)) as connection:
        connection.executescript(change)
    content = changed.read_bytes()
    bad = write_archive(
        tmp_path / "bad.tar.gz", ("manifest.json", manifest_of(content)), ("world.db", content)
    )
    with pytest.raises(InvalidBackupError, match=reason):
        restore_backup(bad, tmp_path / "new")


def test_missing_backup_changes_no_mode(tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o755)
    with pytest.raises(FileNotFoundError):
        restore_backup(tmp_path / "missing.tar.gz", place)
    assert place.stat().st_mode & 0o777 == 0o755
