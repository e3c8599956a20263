"""Pushes of names that git reads itself, and links, whose texts the room has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.driver import Person
from support.git_client import WITHOUT_GIT, GitClient

pytestmark = pytest.mark.skipif(bool(WITHOUT_GIT), reason=WITHOUT_GIT)


@pytest.fixture
def git(alice: Person, tmp_path: Path) -> GitClient:
    return GitClient(alice, tmp_path / "alice")


@pytest.fixture
def clone(room: str, git: GitClient) -> Path:
    return git.clone(room)


def test_what_git_reads_by_its_name_is_refused_also_if_the_room_has_its_text(
    git: GitClient, clone: Path
) -> None:
    texts = {
        "modules": '[submodule "../../x"]\n\tpath = p\n\turl = -u./evil\n',
        "attributes": f"* {'a' * 3000}\n",
        "target": "/etc/passwd",
        "deep/deeper/up": "../../plan.md",
    }
    for name, text in texts.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(text)
    git.commit(clone, "plain files")
    assert git.push(clone).status == 0

    def refuse(change: Callable[[], object], said: str) -> None:
        change()
        git.does("add", "-A", cwd=clone)
        git.commit(clone, "bad")
        git.does("rm", "-rq", "--cached", ".", cwd=clone)
        git.commit(clone, "and gone")  # also in the middle
        refused = git.push(clone)
        assert refused.status == 1 and said in refused.err, refused
        git.does("reset", "-q", "--hard", "HEAD~2", cwd=clone)
        git.does("clean", "-fdq", cwd=clone)

    def link(path: str, target: str) -> None:
        (clone / path).unlink()
        (clone / path).symlink_to(target)

    refuse(lambda: (clone / "modules").rename(clone / ".gitmodules"), "is for submodules")
    refuse(
        lambda: (clone / "attributes").rename(clone / ".gitattributes"), "of more than 2,047 bytes"
    )
    refuse(lambda: link("target", texts["target"]), "leaves the files of the room")
    link("deep/deeper/up", texts["deep/deeper/up"])
    git.does("add", "-A", cwd=clone)
    git.commit(clone, "a link within the room")
    assert git.push(clone).status == 0
    refuse(lambda: (clone / "deep" / "deeper").rename(clone / "deeper"), "leaves the files")
    (clone / "deep" / "more").write_text("x")
    git.does("add", "-A", cwd=clone)
    git.commit(clone, "it stays")
    assert git.push(clone).status == 0
