"""File modes of a world: other users of the machine read nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sshwarma.admin.data_dir_lock import LOCK_NAME, lock_data_dir
from sshwarma.admin.data_dir_modes import make_data_dir_private, make_database_private
from sshwarma.admin.open_world import open_world
from sshwarma.settings import Settings


async def test_existing_directory_and_database_are_taken_from_other_users(tmp_path: Path) -> None:
    data_dir = tmp_path / "srv"
    data_dir.mkdir(mode=0o755)
    data_dir.chmod(0o755)
    settings = Settings(data_dir=data_dir)
    with capture_logs() as logs:
        world = await open_world(settings)
    assert [(entry["event"], entry["path"]) for entry in logs] == [
        ("access of other users was removed", str(data_dir))
    ]
    try:
        modes = {path.name: path.stat().st_mode & 0o777 for path in data_dir.iterdir()}
    finally:
        await world.close()
    assert data_dir.stat().st_mode & 0o777 == 0o700
    assert {mode for name, mode in modes.items() if name.startswith("world.db")} == {0o600}
    assert {"world.db", "world.db-wal", "world.db-shm"} <= modes.keys()


def test_modes_of_the_owner_are_kept(tmp_path: Path) -> None:
    data_dir, database = tmp_path / "d", tmp_path / "d" / "world.db"
    make_data_dir_private(data_dir)
    database.touch(mode=0o444)
    database.chmod(0o444)
    make_database_private(database)
    assert database.stat().st_mode & 0o777 == 0o400


def test_key_of_the_operator_is_taken_from_other_users_and_named(tmp_path: Path) -> None:
    make_data_dir_private(tmp_path)
    key = tmp_path / "operator_ed25519"
    key.touch()
    key.chmod(0o644)
    with capture_logs() as logs:
        make_data_dir_private(tmp_path)
    assert [entry["path"] for entry in logs] == [str(key)]
    assert key.stat().st_mode & 0o777 == 0o600


def test_directory_that_users_share_is_refused_whatever_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    tmp_path.chmod(0o1777)
    with pytest.raises(OSError, match="is shared by users"):
        make_data_dir_private(tmp_path)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_directory_of_something_else_is_refused_and_unchanged(tmp_path: Path, mode: int) -> None:
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    other.chmod(mode)
    with pytest.raises(OSError, match="--data-dir DIR"):
        make_data_dir_private(other)
    assert other.stat().st_mode & 0o7777 == mode


@pytest.mark.parametrize(
    "names", [["lost+found", "etc"], ["sshwarma", "other"], ["ssh_host_ed25519_key", "moduli"]]
)
def test_directory_of_the_system_is_refused_although_some_names_fit(
    tmp_path: Path, names: list[str]
) -> None:
    """As /, /opt with the program in it, and /etc/ssh."""
    for name in names:
        (tmp_path / name).mkdir()
    tmp_path.chmod(0o755)
    with pytest.raises(OSError, match="and no world"):
        make_data_dir_private(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("name", ["ssh_host_ed25519_key", "sshwarma.toml", "lost+found"])
def test_directory_that_was_prepared_is_taken(tmp_path: Path, name: str) -> None:
    """With a host key that has moved, a settings file, or as a new file system."""
    (tmp_path / name).write_text("")
    make_data_dir_private(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_lock_of_an_older_version_is_taken_from_other_users(tmp_path: Path) -> None:
    make_data_dir_private(tmp_path)
    lock = tmp_path / LOCK_NAME
    lock.touch()
    lock.chmod(0o644)
    lock_data_dir(tmp_path).close()
    assert lock.stat().st_mode & 0o777 == 0o600
