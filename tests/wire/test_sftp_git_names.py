"""A repository in a room is in no copy of it: its settings are programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.copying import scp, sftp
from support.driver import Person
from wire.test_sftp import names, versions

SPELLINGS = (".git", ".GIT", "git~1", ".git.")


def set_trap(person: Person, room: str, folder: str = ".git") -> None:
    """Make a repository with a setting that runs a program."""
    done = person.run(
        f"file put {folder}/config --room {room}", b"[core]\n\tfsmonitor = evil\n", "-T"
    )
    assert done.status == 0, done
    person.does(f"file put plan.md --room {room} = good")


@pytest.mark.parametrize("folder", [*SPELLINGS, "deep/.git"])
def test_repository_is_in_no_copy_of_a_room(
    alice: Person, bob: Person, room: str, tmp_path: Path, folder: str
) -> None:
    set_trap(alice, room, folder)
    copied = scp(bob, "-r", f":rooms/{room}/workspace", str(tmp_path / "copy"))
    assert copied.returncode == 0, copied
    files = [str(path.relative_to(tmp_path / "copy")) for path in tmp_path.rglob("copy/**/*")]
    assert sorted(files) == (["deep", "plan.md"] if "/" in folder else ["plan.md"])
    got = sftp(bob, f'get "rooms/{room}/workspace/{folder}/config" {tmp_path}/config')
    assert got.returncode == 1
    assert not (tmp_path / "config").exists()
    assert f"{folder}/config" in names(alice, room)  # it stays in the room


@pytest.mark.parametrize(
    "line",
    [
        *(f"mkdir rooms/{{room}}/workspace/{folder}" for folder in SPELLINGS),
        "put {file} rooms/{room}/workspace/.git",
        "put {file} rooms/{room}/workspace/.git/config",
        "rm rooms/{room}/workspace/.git/config",
        "chmod 755 rooms/{room}/workspace/.git/config",
        "rename rooms/{room}/workspace/plan.md rooms/{room}/workspace/.git/hooks",
        "rename rooms/{room}/workspace/.git rooms/{room}/workspace/shown",
    ],
)
def test_repository_cannot_be_changed_by_sftp(
    alice: Person, room: str, tmp_path: Path, line: str
) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    set_trap(alice, room)
    before = versions(alice, room)
    done = sftp(alice, line.format(file=file, room=room))
    assert done.returncode == 1, done
    assert line.startswith(("rm", "chmod")) or "git clone and git push work" in done.stderr, done
    assert versions(alice, room) == before


def test_folder_with_a_repository_is_not_empty(alice: Person, room: str) -> None:
    set_trap(alice, room, "deep/.git")
    done = sftp(alice, f"rmdir rooms/{room}/workspace/deep")
    assert "is not empty. sftp does not show .git in it." in done.stderr


def test_copy_of_a_repository_leaves_its_own_folder_out(
    alice: Person, room: str, tmp_path: Path
) -> None:
    (tmp_path / "site" / ".git" / "refs").mkdir(parents=True)
    (tmp_path / "site" / ".git" / "config").write_text("x")
    (tmp_path / "site" / "index.md").write_text("x")
    copied = scp(alice, "-r", str(tmp_path / "site"), f":rooms/{room}/workspace/")
    assert "sftp neither shows nor changes .git" in copied.stderr
    assert names(alice, room) == ["site/index.md"]
