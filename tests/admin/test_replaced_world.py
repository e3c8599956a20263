"""Restores over worlds whose log holds changes: none is lost by a kill."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin import data_dir_lock
from sshwarma.admin.backup_archive import InvalidBackupError
from sshwarma.admin.database_copy import choose_free_name
from sshwarma.admin.open_world import open_world
from sshwarma.admin.restore import restore_backup
from sshwarma.settings import Settings

FILES = ("world.db", "world.db-wal")


def leave_log(database: Path) -> None:
    """Leave a change in the log of a world, as a server that was killed does."""
    log = database.with_name("world.db-wal")
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
        opened.execute("UPDATE things SET description = 'in the log' WHERE id = 'world'")
        killed = database.read_bytes(), log.read_bytes()
    database.write_bytes(killed[0])
    log.write_bytes(killed[1])


def damage(database: Path) -> None:
    """Damage a database such that SQLite reads nothing of it."""
    database.write_bytes(b"w" * 100 + database.read_bytes()[100:])


def read_description(database: Path) -> Any:
    with closing(sqlite3.connect(database)) as opened:
        return opened.execute("SELECT description FROM things WHERE id = 'world'").fetchone()[0]


def test_restore_over_a_killed_world_keeps_what_its_log_has(database: Path, made: Path) -> None:
    leave_log(database)
    kept = Path(restore_backup(made, database.parent, force=True)["replaced"])
    assert read_description(database) != "in the log"
    assert not kept.with_name(f"{kept.name}-wal").exists(), "it can be copied as one file"
    assert read_description(kept) == "in the log"


def test_world_that_another_program_reads_is_not_replaced(database: Path, made: Path) -> None:
    """Its log cannot be emptied, and changes are in the log alone."""
    with (
        closing(sqlite3.connect(database, isolation_level=None)) as reader,
        closing(sqlite3.connect(database, isolation_level=None)) as writer,
    ):
        reader.execute("PRAGMA journal_mode = WAL")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM things").fetchone()
        writer.execute("UPDATE things SET description = 'in the log' WHERE id = 'world'")
        before = sorted(path.name for path in database.parent.iterdir())
        with pytest.raises(
            OSError, match=r"Another program uses .*world\.db\. End it, then restore"
        ):
            restore_backup(made, database.parent, force=True)
        after = {path.name for path in database.parent.iterdir()}
        assert after - set(before) <= {data_dir_lock.LOCK_NAME}
    assert read_description(database) == "in the log"


def test_log_of_a_lost_world_is_not_taken_for_that_of_the_restored_one(
    database: Path, made: Path
) -> None:
    leave_log(database)
    database.unlink()
    assert restore_backup(made, database.parent)["replaced"] is None
    assert read_description(database) != "in the log"
    assert len(list(database.parent.glob("world-replaced-*.db-wal"))) == 1


def restore_killed(made: Path, directory: Path, step: int) -> bool:
    """Restore in a process that is killed before one of its changes of names.

    Whether it was killed, and had not done all before.
    """
    child = os.fork()
    if child == 0:
        left = [step]

        def wrap(change: Any) -> Any:
            def run(*args: Any, **kwargs: Any) -> Any:
                if left[0] == 0:
                    os._exit(9)
                left[0] -= 1
                return change(*args, **kwargs)

            return run

        for name in ("link", "rename", "replace", "unlink"):
            setattr(os, name, wrap(getattr(os, name)))
        try:
            restore_backup(made, directory, force=True)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def copy_files(database: Path, to: Path) -> Path:
    """Copy a database with its log, as after a power cut; return it."""
    to.mkdir()
    for path in database.parent.glob(f"{database.name}*"):
        shutil.copyfile(path, to / path.name.replace(database.name, "world.db"))
    return to / "world.db"


def leave_journal(database: Path) -> None:
    """Leave the journal of a change that was not completed, as a killed program does."""
    journal = database.with_name("world.db-journal")
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        opened.execute("PRAGMA journal_mode = DELETE")
        opened.execute("PRAGMA cache_size = 2")
        opened.execute("BEGIN EXCLUSIVE")
        opened.execute("UPDATE things SET description = hex(randomblob(3000))")
        killed = database.read_bytes(), journal.read_bytes()
    database.write_bytes(killed[0])
    journal.write_bytes(killed[1])


def test_journal_of_a_lost_world_is_not_applied_to_the_restored_one(
    database: Path, made: Path
) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as opened:
        for _ in range(200):  # pages that the world in the backup has not
            opened.execute("INSERT INTO audit (at, door, verb, what) VALUES (1, 'x', 'x', ?)",
                           ("x" * 2000,))  # fmt: skip
    leave_journal(database)
    journal = database.with_name("world.db-journal")
    left = journal.read_bytes()
    database.unlink()
    manifest = restore_backup(made, database.parent)
    assert not journal.exists()
    (kept,) = manifest["replaced_logs"]
    assert kept.endswith(".db-journal") and Path(kept).read_bytes() == left
    with closing(sqlite3.connect(database)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert opened.execute("SELECT count(*) FROM audit WHERE door = 'x'").fetchone() == (0,)


def test_unfinished_change_is_undone_in_the_replaced_world(database: Path, made: Path) -> None:
    before = read_description(database)
    leave_journal(database)
    kept = Path(restore_backup(made, database.parent, force=True)["replaced"])
    assert not database.with_name("world.db-journal").exists()
    assert not kept.with_name(f"{kept.name}-journal").exists()
    assert read_description(kept) == before


def test_index_of_a_log_is_not_left_beside_the_restored_world(database: Path, made: Path) -> None:
    shared = database.with_name("world.db-shm")
    shared.write_bytes(b"x" * 32768)
    database.unlink()
    restore_backup(made, database.parent)
    assert not shared.exists()
    leave_log(database)
    damage(database)
    shared.write_bytes(b"x" * 32768)
    restore_backup(made, database.parent, force=True)
    assert not shared.exists()


@pytest.mark.process
def test_restore_that_is_killed_leaves_the_old_world_or_the_new_one(
    database: Path, made: Path, tmp_path: Path
) -> None:
    leave_log(database)
    step, was_killed = 0, True
    while was_killed:
        directory = tmp_path / str(step)
        copy_files(database, directory)
        was_killed = restore_killed(made, directory, step)
        for kept in directory.glob("world-replaced-*.db"):
            assert read_description(copy_files(kept, directory / "kept")) == "in the log"
        live = read_description(copy_files(directory / "world.db", directory / "live"))
        assert live == "in the log" or kept
        step += 1
    assert live != "in the log" and step > 3


@pytest.mark.process
def test_damaged_world_keeps_its_log_when_a_restore_is_killed(
    database: Path, made: Path, tmp_path: Path
) -> None:
    leave_log(database)
    damage(database)
    old = [database.with_name(name).read_bytes() for name in FILES]
    step, was_killed = 0, True
    while was_killed:
        directory = tmp_path / str(step)
        live = copy_files(database, directory)
        was_killed = restore_killed(made, directory, step)
        kept = [directory / f"{path}{end}" for path in directory.glob("world-replaced-*.db")
                for end in ("", "-wal")]  # fmt: skip
        assert not kept or [path.read_bytes() for path in kept] == old
        log = live.with_name("world.db-wal")
        assert live.exists(), "a start says that the world is damaged, not that it is gone"
        if live.read_bytes() == old[0]:
            assert kept or log.read_bytes() == old[1]
        else:
            assert kept and not log.exists()
        restore_backup(made, directory, force=True)
        for log in directory.glob("world-replaced-*.db-wal"):
            assert log.with_name(log.name.removesuffix("-wal")).exists(), "no log stays alone"
        step += 1
    assert step > 6
    with closing(sqlite3.connect(live)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_second_name_of_a_world_goes_before_the_world_is_used(
    database: Path, made: Path, tmp_path: Path
) -> None:
    """A restore that is killed may leave one."""
    second = database.with_name("world-replaced-20260102-030405.db")
    other = database.with_name("world-replaced-20260102-030406.db")
    os.link(database, second)
    shutil.copyfile(database, other)
    with pytest.raises(InvalidBackupError, match=r"is the world .*world\.db by another name"):
        restore_backup(second, tmp_path / "elsewhere")
    world = await open_world(Settings(data_dir=database.parent))
    await world.close()
    assert (second.exists(), other.exists()) == (False, True)
    os.link(database, second)
    restore_backup(made, database.parent, force=True)
    assert not second.exists()


def test_world_is_not_replaced_while_its_disk_is_full(
    database: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_log(database)

    class Full(sqlite3.Connection):
        def execute(self, statement: str, *args: Any) -> sqlite3.Cursor:
            if "DELETE" in statement:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return super().execute(statement, *args)

    real = sqlite3.connect

    def connect(path: Any, **options: Any) -> sqlite3.Connection:
        return real(path, factory=Full if path == database else sqlite3.Connection, **options)

    monkeypatch.setattr("sshwarma.admin.replaced_world.sqlite3.connect", connect)
    with pytest.raises(OSError, match=r"database or disk is full\. Make room"):
        restore_backup(made, database.parent, force=True)
    monkeypatch.undo()
    assert read_description(database) == "in the log"


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_name_with_a_log_is_not_given_to_a_database(tmp_path: Path, ending: str) -> None:
    free = tmp_path / "world-replaced-20260102-030405.db"
    assert choose_free_name(free) == free
    (tmp_path / f"{free.name}{ending}").symlink_to("nowhere")
    assert choose_free_name(free).name == "world-replaced-20260102-030405-2.db"


def test_two_restores_in_a_second_keep_two_worlds(
    database: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.strftime", lambda *_: "20260102-030405")
    leave_log(database)
    database.unlink()
    (log,) = restore_backup(made, database.parent)["replaced_logs"]
    kept = Path(restore_backup(made, database.parent, force=True)["replaced"])
    assert f"{kept}-wal" != log and Path(log).exists()
    assert read_description(kept) != "in the log"
