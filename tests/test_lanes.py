"""Lanes of the suite: what their lists name exists."""

from __future__ import annotations

from pathlib import Path

from support import lanes

TESTS = Path(__file__).parent


def test_listed_files_and_folders_exist() -> None:
    listed = {*lanes.LONGEST_FILES, *lanes.FOLDERS, *lanes.ONE_LOOP}
    assert not [name for name in listed if not (TESTS / name).exists()]
