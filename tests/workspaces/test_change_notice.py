"""What a notice says of changed files is the same for all doors."""

from __future__ import annotations

import pytest

from sshwarma.workspaces.change_notice import describe_changes
from sshwarma.workspaces.tree import EMPTY_FOLDER, Changes, Entry

FILE = Entry("0" * 64)


@pytest.mark.parametrize(
    ("changes", "described"),
    [
        ({"a": FILE}, "changed a by sftp"),
        ({"b": None}, "removed b by sftp"),
        ({"a": FILE, "b": None}, "changed a by sftp; removed b"),
        ({"b": FILE, "a": FILE, "d": None, "c": None},
         "changed 2 files by sftp: a, b; removed 2 files: c, d"),
        ({"d/a": FILE, "d": None}, "changed d/a by sftp"),  # the folder is not empty any more
        ({"d/a": None, "d": EMPTY_FOLDER}, "removed d/a by sftp"),
        ({"d": EMPTY_FOLDER}, "made d/ by sftp"),
        ({"e": EMPTY_FOLDER, "d": EMPTY_FOLDER}, "made 2 folders by sftp: d/, e/"),
        ({f"f{number}": FILE for number in range(7)},
         "changed 7 files by sftp: f0, f1, f2, f3, f4 and 2 more"),
        ({}, ""),
    ],
)  # fmt: skip
def test_changes_are_described_by_kind(changes: Changes, described: str) -> None:
    assert describe_changes(changes, "sftp") == described
