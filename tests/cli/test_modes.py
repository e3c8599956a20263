"""Data directories and files whose mode keeps their owner out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sshwarma.admin import doctor
from sshwarma.admin.data_dir_owner import ForeignDataDirError, check_data_dir_owner
from sshwarma.admin.owners_in_file import was_logged_in_to
from sshwarma.cli.main import main
from sshwarma.settings import load_settings


@pytest.fixture
def data(newborn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    shutil.copyfile(newborn, path / "world.db")
    if os.geteuid() == 0:  # for whom no mode counts
        monkeypatch.setattr(os, "access", lambda *_, **__: False)
    return path


@pytest.mark.parametrize(
    ("name", "mode", "change"),
    [
        ("world.db", 0o400, "u+rw"),
        ("", 0o500, "u+rwx"),
        ("blobs", 0o500, "u+rwx"),
        ("workspaces", 0o600, "u+rwx"),
    ],
)
def test_mode_that_keeps_the_owner_out_is_named_with_the_command(
    data: Path, name: str, mode: int, change: str
) -> None:
    check_data_dir_owner(data)
    path = data / name
    if name in ("blobs", "workspaces"):
        path.mkdir()
    path.chmod(mode)
    try:
        with pytest.raises(ForeignDataDirError) as refused:
            check_data_dir_owner(data)
        assert str(refused.value) == (
            f"The mode of {path} is {mode:04o}, with which it cannot be used."
            f" Run: chmod {change} {path}"
        )
        settings = load_settings(
            data_dir=data, ssh={"listen": "127.0.0.1:0"}, http={"listen": "off"}
        )
        found = doctor.run_checks(settings)
        (row,) = [one for one in found if not one.ok]
        assert (row.name, row.remedy) == ("data directory", f"run: chmod {change} {path}")
    finally:
        path.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_contents_of_another_user_are_named(data: Path) -> None:
    (data / "blobs").mkdir(mode=0o700)
    os.chown(data / "blobs", 4321, 4321)
    with pytest.raises(ForeignDataDirError, match=r"blobs belongs to user 4321.*chown -R root"):
        check_data_dir_owner(data)


def test_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ForeignDataDirError, match=r"A part of the path .* is a file\. Choose"):
        check_data_dir_owner(tmp_path / "file")


def test_world_that_nobody_has_used_has_no_known_host_key(data: Path) -> None:
    assert not was_logged_in_to(data / "world.db")
    assert not was_logged_in_to(data / "nosuch.db")


def test_refusal_is_json_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["agents", "list", "--json", "--data-dir", str(tmp_path / "nosuch")]
    assert main(words) == 1
    said = capsys.readouterr()
    assert '"error": "not_found"' in said.out
    assert "does not contain a world" in said.out
    assert '"hint": "' in said.out
    assert not said.err
