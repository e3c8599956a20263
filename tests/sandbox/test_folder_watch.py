"""Files that programs move behind a look from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from sshwarma.sandbox import folder_watch, watch
from sshwarma.sandbox.folder_watch import FolderWatch
from sshwarma.sandbox.host import SandboxHost
from sshwarma.sandbox.pause import PauseError
from support.sandboxes import needs_bubblewrap, python

MANY = """
import os, time
for number in range(150_000):
    os.mknod(f"f{number}")
    if number > 25_000 and number % 5_000 == 0:
        time.sleep(1)
"""
"""More files than are allowed, and then more each second: others may delete some of theirs on
the same file system meanwhile, and its count grows by less."""


def find_states(init: int) -> set[str]:
    """Return the states of the processes of a sandbox but the first, such as T."""
    states = set()
    for path in Path(f"/proc/{init}/root/proc").glob("[0-9]*/stat"):
        if path.parent.name != "1":
            states.add(path.read_text().rpartition(")")[2].split()[0])
    return states


@pytest.mark.process
@needs_bubblewrap
async def test_programs_are_stopped_when_the_file_system_has_grown(
    host: SandboxHost, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if they moved each file behind each look at programs that run."""

    class Watch(FolderWatch):
        def look(self) -> str:
            def find(folder: Path) -> str:
                return watch.find_folder_excess(folder) if find_states(self._init) == {"T"} else ""

            monkeypatch.setattr(folder_watch, "find_folder_excess", find)
            return super().look()

    monkeypatch.setattr("sshwarma.sandbox.run.FolderWatch", Watch)
    assert await python(host, ws, MANY) == "[it made too many files (limit 10,000)]"


def test_programs_that_cannot_be_stopped_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise PauseError

    watched = FolderWatch(1, tmp_path)
    monkeypatch.setattr(folder_watch, "pause", fail)
    assert watched.look() == "", "nothing has grown"
    monkeypatch.setattr(folder_watch, "MAX_WORKSPACE_ENTRIES", -(1 << 40))
    assert watched.look() == "its files could not be counted"


def test_files_are_looked_at_where_nobody_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fail(_: int) -> None:
        asked.append(True)
        raise FileNotFoundError

    monkeypatch.setattr(folder_watch, "pause", fail)
    monkeypatch.setattr(folder_watch, "_measure", lambda _: folder_watch._Used(0, 0))
    watched = FolderWatch(1, tmp_path)
    assert [watched.look() for _ in range(10)] == [""] * 10
    assert len(asked) == 2
