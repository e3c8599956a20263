"""What a notice says of changed files is the same for all doors."""

from __future__ import annotations

import pytest

from sshwarma.workspaces.change_kinds import find_change_kinds
from sshwarma.workspaces.change_notice import describe_changes
from sshwarma.workspaces.tree import EMPTY_FOLDER, Changes, Entry, Tree

FILE = Entry("0" * 64)


@pytest.mark.parametrize(
    ("before", "changes", "described"),
    [
        ({}, {"a": FILE}, "changed a by sftp"),
        ({"b": FILE}, {"b": None}, "removed b by sftp"),
        ({"b": FILE}, {"a": FILE, "b": None}, "changed a by sftp; removed b"),
        ({"c": FILE, "d": FILE}, {"b": FILE, "a": FILE, "d": None, "c": None},
         "changed 2 files by sftp: a, b; removed 2 files: c, d"),
        ({"d": EMPTY_FOLDER}, {"d/a": FILE, "d": None}, "changed d/a by sftp"),  # d is not empty
        ({"d": FILE}, {"d/a": FILE, "d": None}, "changed d/a by sftp; removed d"),
        ({"d": EMPTY_FOLDER}, {"d/e": EMPTY_FOLDER, "d": None}, "made d/e/ by sftp"),
        ({"d": EMPTY_FOLDER}, {"d": None}, "removed d by sftp"),
        ({"d/a": FILE}, {"d/a": None, "d": EMPTY_FOLDER}, "removed d/a by sftp"),
        ({}, {"d": EMPTY_FOLDER}, "made d/ by sftp"),
        ({}, {"e": EMPTY_FOLDER, "d": EMPTY_FOLDER}, "made 2 folders by sftp: d/, e/"),
        ({}, {f"f{number}": FILE for number in range(7)},
         "changed 7 files by sftp: f0, f1, f2, f3, f4 and 2 more"),
        ({}, {}, ""),
    ],
)  # fmt: skip
def test_changes_are_described_by_kind(before: Tree, changes: Changes, described: str) -> None:
    kinds = find_change_kinds(before, changes)
    assert describe_changes(changes, kinds, "sftp") == described
    assert describe_changes(changes, kinds) == described.replace(" by sftp", "")
