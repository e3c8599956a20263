"""A workspace as a folder of the machine: sshfs, rsync and git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.copying import WITHOUT_RSYNC, WITHOUT_SSHFS, mounted, read_tree
from support.driver import Person
from support.waiting import wait_until
from wire.test_sftp import names, versions

pytestmark = pytest.mark.skipif(bool(WITHOUT_SSHFS), reason=WITHOUT_SSHFS)


@pytest.fixture
def folder(alice: Person, room: str, tmp_path: Path) -> Iterator[Path]:
    with mounted(alice, f"rooms/{room}/workspace", tmp_path / "mnt", "-o", "idmap=user") as at:
        yield at


def shell(at: Path, script: str) -> str:
    """Run a script in a folder; every command of it must succeed."""
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=at,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"},
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout


def test_programs_work_in_a_mounted_workspace(alice: Person, room: str, folder: Path) -> None:
    shell(
        folder,
        """
        echo one > a.txt
        echo two >> a.txt
        sed -i s/one/eins/ a.txt
        mkdir -p deep/er
        cp a.txt deep/er/b.txt
        mv deep/er/b.txt deep/c.txt
        rmdir deep/er
        printf '#!/bin/sh\\necho ran\\n' > run.sh
        chmod +x run.sh
        test "$(./run.sh)" = ran
        mkdir gone
        touch gone/x gone/y
        rm -r gone
        head -c 3000000 /dev/zero > zeros
        truncate -s 10 zeros
        printf X | dd of=zeros bs=1 seek=5 conv=notrunc status=none
        test "$(cat a.txt deep/c.txt | wc -l)" = 4
        """,
    )
    wait_until(lambda: names(alice, room) == ["a.txt", "deep/c.txt", "run.sh", "zeros"])
    assert alice.run(f"file get zeros --room {room}").raw == bytes(5) + b"X" + bytes(4)
    assert (folder / "run.sh").stat().st_uid == os.getuid()


def test_others_changes_are_seen(alice: Person, bob: Person, room: str, tmp_path: Path) -> None:
    with mounted(bob, f"rooms/{room}", tmp_path / "mnt", "-o", "dir_cache=no") as at:
        assert sorted(path.name for path in at.iterdir()) == [
            *("journal.md", "log.md", "things", "workspace"),
        ]
        alice.run(f"file put new.txt --room {room}", b"new", "-T")
        wait_until(lambda: (at / "workspace" / "new.txt").exists())
        assert (at / "workspace" / "new.txt").read_text() == "new"
        assert "# " in (at / "log.md").read_text()
        with pytest.raises(PermissionError):
            (at / "log.md").write_text("mine")


@pytest.mark.skipif(bool(WITHOUT_RSYNC), reason=WITHOUT_RSYNC)
def test_rsync_works_over_sshfs(alice: Person, room: str, folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    for number in range(30):
        (source / "deep" / f"{number}.txt").write_text("x" * number * 1000)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    rsync = f"rsync -a --no-owner --no-group {source}/ ."
    shell(folder, rsync)
    wait_until(lambda: len(names(alice, room)) == 31)
    (source / "deep" / "3.txt").unlink()
    (source / "deep" / "4.txt").write_text("new")
    shell(folder, f"{rsync} --delete --checksum")

    def has_arrived() -> bool:  # the two changes may be two versions
        shown = alice.json(f"files --room {room}")["files"]
        sizes = {item["path"]: item["size"] for item in shown}
        return len(sizes) == 30 and sizes["deep/4.txt"] == len("new")

    wait_until(has_arrived)
    shell(tmp_path, f"rsync -a --no-owner --no-group {folder}/ {tmp_path}/back")
    assert read_tree(tmp_path / "back") == read_tree(source)
    before = versions(alice, room)
    shell(folder, f"{rsync} --checksum")
    assert versions(alice, room) == before


def test_git_works_on_a_mounted_workspace_from_outside(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        (folder / ".git").mkdir()
    shell(
        folder,
        f"""
        export GIT_DIR={tmp_path}/outside GIT_WORK_TREE={folder}
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git -c init.defaultBranch=main init -q .
        echo one > a
        git add a
        git commit -q -m one
        echo two > a
        git commit -q -a -m two
        test "$(git log --oneline | wc -l)" = 2
        git fsck --strict
        test -z "$(git status --porcelain)"
        """,
    )
