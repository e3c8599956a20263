"""What people read of the files that a program left."""

from __future__ import annotations

from sshwarma.workspaces.runs import RunFiles, describe_files


def test_names_that_are_left_out_are_shortened() -> None:
    deep = "/".join(["d" * 200] * 40)
    (note,) = describe_files(RunFiles(left_out=(deep, "pipe\x1b")))
    assert len(note) < 200
    assert "'pipe\\x1b'" in note
