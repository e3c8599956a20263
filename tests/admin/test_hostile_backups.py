"""Archives that nobody made with `sshwarma backup`: refused, at no cost."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import sqlite3
import tarfile
import zlib
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import pytest

from sshwarma.admin.backup_archive import InvalidBackupError
from sshwarma.admin.restore import restore_backup
from sshwarma.settings import DATABASE_NAME
from sshwarma.world.migrate import newest_schema_file
from support.backup_files import manifest_of, sizes, write


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
    bad = write(tmp_path / "bad.tar.gz", *HOSTILE[name])
    target = tmp_path / "deep" / "data"
    with pytest.raises(InvalidBackupError, match=r"bad\.tar\.gz"):
        restore_backup(bad, target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tar.gz"]


def test_backup_of_a_foreign_database_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as opened:
        opened.execute("CREATE TABLE cookies (crumbs)")
        opened.commit()
    content = other.read_bytes()
    bad = write(
        tmp_path / "bad.tar.gz", ("manifest.json", manifest_of(content)), ("world.db", content)
    )
    with pytest.raises(InvalidBackupError):
        restore_backup(bad, tmp_path / "data")
    assert not (tmp_path / "data" / "world.db").exists()


def is_same_without(archive: bytearray, at: int) -> bool:
    """Whether a flipped byte changes nothing, such as which zeros are copied."""
    flipped = bytearray(archive)
    flipped[at] ^= 0x55
    try:
        return gzip.decompress(flipped) == gzip.decompress(archive)
    except (OSError, EOFError, zlib.error):
        return False


@pytest.mark.parametrize("where", [0.0, 0.02, 0.3, 0.6, 0.9, 0.97])
@pytest.mark.parametrize("how", ["flip", "cut"])
def test_a_damaged_archive_is_refused(made: Path, tmp_path: Path, where: float, how: str) -> None:
    content = bytearray(made.read_bytes())
    at = int(len(content) * where)
    if how == "cut":
        del content[at:]
    else:
        at = next(at for at in range(at, len(content)) if not is_same_without(content, at))
        content[at] ^= 0x55
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(content)
    with pytest.raises(InvalidBackupError):
        restore_backup(bad, tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()


def test_damage_beside_the_database_is_found(made: Path, tmp_path: Path) -> None:
    """The checksum in the manifest is that of the database alone."""
    good = gzip.decompress(made.read_bytes())
    damaged = bytearray(good)
    damaged[good.index(b"}") + 5] = ord("x")  # padding of the manifest
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(gzip.compress(bytes(damaged))[:-8] + gzip.compress(good)[-8:])
    with pytest.raises(InvalidBackupError, match="CRC check failed"):
        restore_backup(bad, tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()


def test_archive_that_goes_on_after_its_database_is_refused(database: Path, tmp_path: Path) -> None:
    content = database.read_bytes()
    bad = write(
        tmp_path / "bad.tar.gz",
        ("manifest.json", manifest_of(content)),
        ("world.db", content),
        ("more", bytes(100_000)),
    )
    with pytest.raises(InvalidBackupError, match="it goes on after its end"):
        restore_backup(bad, tmp_path / "new")


def test_file_that_is_not_an_archive_is_refused(tmp_path: Path) -> None:
    for content, said in (
        (b"", r"is empty\. If it was made by a command"),
        (b"hello", r"neither an archive .* nor a copy"),
    ):
        bad = tmp_path / "bad.tar.gz"
        bad.write_bytes(content)
        with pytest.raises(InvalidBackupError, match=said):
            restore_backup(bad, tmp_path / "new")
    for content in (gzip.compress(b"hello"), b"\x1f\x8b" + b"\0" * 50):
        bad = tmp_path / "bad.tar.gz"
        bad.write_bytes(content)
        with pytest.raises(InvalidBackupError):
            restore_backup(bad, tmp_path / "new")
    with pytest.raises(FileNotFoundError):
        restore_backup(tmp_path / "nowhere.tar.gz", tmp_path / "new")


def test_wrong_database_checksum_is_refused(database: Path, tmp_path: Path) -> None:
    content = database.read_bytes()
    received = manifest_of(content, sha256=hashlib.sha256(b"another").hexdigest())
    bad = write(tmp_path / "bad.tar.gz", ("manifest.json", received), ("world.db", content))
    with pytest.raises(InvalidBackupError, match="the checksum of its database is wrong"):
        restore_backup(bad, tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()


def test_a_database_with_damaged_pages_is_refused(database: Path, tmp_path: Path) -> None:
    content = bytearray(database.read_bytes())
    for at in range(len(content) // 2, len(content) // 2 + 8192):
        content[at] = 0xA5
    bad = write(
        tmp_path / "bad.tar.gz",
        ("manifest.json", manifest_of(bytes(content))),
        ("world.db", bytes(content)),
    )
    with pytest.raises(InvalidBackupError, match="damaged"):
        restore_backup(bad, tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()


def test_content_that_is_no_database_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gigabytes of zeros are a small archive."""
    content = b"SQLite format 3\0" + bytes(1_000_000)
    bad = write(
        tmp_path / "b.tar.gz", ("manifest.json", manifest_of(content)), ("world.db", content)
    )
    monkeypatch.setattr(os, "fdopen", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(InvalidBackupError, match="is no database"):
        restore_backup(bad, tmp_path / "new")


def test_long_header_is_refused_before_it_is_read(made: Path, tmp_path: Path) -> None:
    """tarfile reads an extended header into memory whole."""
    bad = tmp_path / "bad.tar.gz"
    with tarfile.open(bad, "w:gz", pax_headers={"comment": "x" * 10_000_000}) as tar:
        tar.addfile(tarfile.TarInfo("manifest.json"))
    assert bad.stat().st_size < 50_000
    with pytest.raises(InvalidBackupError, match=r"a header has 10\d+ bytes"):
        restore_backup(bad, tmp_path / "new")


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytearray:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return bytearray(info.tobuf(tarfile.GNU_FORMAT))


def sign(block: bytearray) -> bytes:
    """A header with its checksum."""
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


def sparse_entry() -> bytes:
    """A database whose map of holes is as long as the archive."""
    block = header(DATABASE_NAME, 512, tarfile.GNUTYPE_SPARSE)
    hole = b"%011o\0%011o\0" % (1, 1)
    block[386:482] = hole * 4
    block[482] = 1
    more = (hole * 21 + b"\1").ljust(tarfile.BLOCKSIZE, b"\0")
    return sign(block) + more * 2_000


def pax_header(text: bytes) -> bytes:
    record = b"%d %s\n" % (len(text) + 4, text)
    return sign(header("x", len(record), tarfile.XHDTYPE)) + record.ljust(512, b"\0")


def negative_size() -> bytes:
    block = header("manifest.json", 0)
    block[124:136] = (256**12 - 512).to_bytes(12, "big")
    return sign(block)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (negative_size() + bytes(1024), "a size below zero"),
        (sparse_entry(), "something else than plain files"),
        (pax_header(b"a=1") * 5, "more than 4 extended headers"),
        (pax_header(b"size=%d" % 10**18) + sign(header("manifest.json", 0)), "its manifest has 1"),
        (sign(header("x", 0, tarfile.CHRTYPE)), "something else than plain files"),
    ],
    ids=["negative", "sparse", "headers", "size elsewhere", "device"],
)
def test_hostile_headers_cost_neither_time_nor_memory(
    tmp_path: Path, content: bytes, said: str
) -> None:
    bad = tmp_path / "bad.tar.gz"
    bad.write_bytes(gzip.compress(content))
    with pytest.raises(InvalidBackupError, match=said):
        restore_backup(bad, tmp_path / "new")


def test_size_of_a_large_database_is_read_from_its_extended_header(
    database: Path, tmp_path: Path
) -> None:
    """From 8 GiB on, tar has no room for it in the plain one."""
    content = database.read_bytes()
    manifest = manifest_of(content)
    entries = sign(header("manifest.json", len(manifest))) + manifest.ljust(512, b"\0")
    entries += pax_header(b"size=%d" % len(content)) + sign(header(DATABASE_NAME, 0)) + content
    path = tmp_path / "large.tar.gz"
    path.write_bytes(gzip.compress(entries + bytes(1024)))
    restore_backup(path, tmp_path / "new")
    assert sizes(tmp_path / "new" / DATABASE_NAME) == sizes(database)


ENDLESS_VIEW = (
    "ALTER TABLE alembic_version RENAME TO other",
    "CREATE VIEW alembic_version AS WITH RECURSIVE c(n) AS"
    " (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) AS version_num FROM c",
)


def replacing(table: str, clause: str) -> list[str]:
    """Return what makes a table again, with one clause more and all its indexes."""
    schema = newest_schema_file().read_text(encoding="utf-8").split(";\n")
    [made] = (text for text in schema if f"CREATE TABLE {table} (" in text)
    indexes = [text for text in schema if "CREATE INDEX" in text and f" ON {table} (" in text]
    assert indexes
    return [
        f"DROP TABLE {table}",
        f"{made.rstrip().removesuffix(')')}, {clause})",
        *indexes,
    ]


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (ENDLESS_VIEW, "alembic_version is a view and not a table"),
        (["DELETE FROM alembic_version"], "does not name the version of its schema"),
        (["UPDATE alembic_version SET version_num = 'x'"], "its schema is 'x'"),
        (
            ["CREATE TRIGGER t AFTER INSERT ON audit BEGIN DELETE FROM audit; END"],
            "no version of sshwarma makes its trigger 't'",
        ),
        (["CREATE VIEW mine AS SELECT 1"], "no version of sshwarma makes its view 'mine'"),
        (["CREATE INDEX i ON rows (lower(content))"], "no version of sshwarma makes its index"),
        (["DROP VIEW skills", "CREATE VIEW skills AS SELECT 1 AS id"], "its view 'skills' is not"),
        (["DROP TABLE tokens"], "'tokens' is missing"),
        (["ALTER TABLE tokens ADD COLUMN more"], "its table 'tokens' is not"),
        (
            ["UPDATE things SET metadata = '{{{' WHERE id = 'world'"],
            "the thing 'world' cannot",
        ),
        (
            ["UPDATE things SET metadata = '[]' WHERE id = 'world'"],
            "the thing 'world' cannot",
        ),
        (
            [f"UPDATE things SET metadata = '{'[' * 1800}{']' * 1800}' WHERE id = 'world'"],
            "the thing 'world' cannot",
        ),
        (replacing("audit", "UNIQUE (agent_id) ON CONFLICT IGNORE"), "its table 'audit' is not"),
        (replacing("audit", "CHECK (what NOT LIKE '%disable%')"), "its table 'audit' is not"),
        (replacing("audit", "UNIQUE (door)"), "its table 'audit' is not"),
        (["UPDATE things SET name = x'ff' WHERE id = 'world'"], "things.name has a value of the"),
        (["UPDATE things SET created_at = 'x' WHERE id = 'world'"], "things.created_at has a"),
        (
            ["UPDATE things SET description = CAST(x'ff' AS TEXT) WHERE id = 'world'"],
            "things has a text that is not UTF-8",
        ),
        (
            [
                "UPDATE things SET metadata = "
                f"""'{{"a": {"[" * 1800}{"]" * 1800}}}' WHERE id = 'world'"""
            ],
            "the thing 'world' cannot",
        ),
        (
            [
                "INSERT INTO things (id, kind, name, metadata, created_at, updated_at)"
                """ VALUES ('a1', 'agent', 'x', '{"role": [1]}', 1, 1)"""
            ],
            "the agent 'a1' cannot be read: its role is",
        ),
        (
            [
                "INSERT INTO things (id, kind, name, metadata, created_at, updated_at)"
                " VALUES ('a1', 'agent', 'x', '{}', 1, 1)",
                "INSERT INTO tokens (id, agent_id, token_sha256, label, created_at, scope)"
                " VALUES ('t1', 'a1', 'h', '', 1, 'emperor')",
            ],
            "the scope of the token 't1' is 'emperor'",
        ),
        (
            ["INSERT INTO sqlite_sequence VALUES ('audit', 9223372036854775807)"],
            "the table 'audit' can have no more rows",
        ),
    ],
)
def test_database_with_what_no_version_makes_is_refused(
    database: Path, tmp_path: Path, statements: list[str], said: str
) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        opened.execute("PRAGMA legacy_alter_table = ON")
        for statement in statements:
            opened.execute(statement)
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = database.read_bytes()
    bad = write(
        tmp_path / "bad.tar.gz", ("manifest.json", manifest_of(content)), ("world.db", content)
    )
    with pytest.raises(InvalidBackupError, match=said):
        restore_backup(bad, tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()


def test_archive_whose_database_needs_more_room_is_refused_first(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 10, 1000))
    with pytest.raises(OSError, match=r"What is in .* needs 1 MiB, and 0 MiB are free"):
        restore_backup(made, tmp_path / "new")
    assert not (tmp_path / "new" / "world.db").exists()


def test_damage_that_sqlite_only_reports_is_refused(database: Path, tmp_path: Path) -> None:
    """An index that lacks its rows is no error of reading: the verdict tells."""
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        find = "SELECT sql FROM sqlite_schema WHERE name = 'ix_things_parent'"
        sql = opened.execute(find).fetchone()[0]
        opened.execute("DROP INDEX ix_things_parent")
        opened.execute("CREATE INDEX ix_things_parent ON things (parent_id) WHERE 0")
        opened.execute("PRAGMA writable_schema = ON")
        opened.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'ix_things_parent'", (sql,))
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = database.read_bytes()
    bad = write(
        tmp_path / "bad.tar.gz", ("manifest.json", manifest_of(content)), ("world.db", content)
    )
    with pytest.raises(InvalidBackupError, match=r"damaged: .*ix_things_parent"):
        restore_backup(bad, tmp_path / "new")
