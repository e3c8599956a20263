"""Modes of files that a program may swap for a link meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from sshwarma.workspaces.modes import open_up


def test_link_is_not_followed_and_a_folder_is_opened(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.mkdir(mode=0o755)
    folder.mkdir()
    (folder / "link").symlink_to(victim)
    (folder / "shut").mkdir(mode=0)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        open_up("link", descriptor)
        open_up("shut", descriptor)
    finally:
        os.close(descriptor)
    assert victim.stat().st_mode & 0o777 == 0o755
    assert (folder / "shut").stat().st_mode & 0o777 == 0o700
