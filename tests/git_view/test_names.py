"""Names that a client takes for the folder of git, and links that leave a tree."""

from __future__ import annotations

import pytest

from sshwarma.git.names import has_git_name, is_git_name, leaves_tree
from sshwarma.ssh.door.git_command import GitCommand, parse_git_command


@pytest.mark.parametrize(
    "name", [".git", ".GIT", ".Git", ".git.", ".git ", ".git. .", "git~1", "GIT~1", ".git:x"]
)
def test_git_names_are_found(name: str) -> None:
    assert is_git_name(name)
    assert has_git_name(f"a/{name}/config")


@pytest.mark.parametrize(
    "name", [".github", ".gitignore", ".gitattributes", "git", "git~2", "a.git", ".gi", "...", ":"]
)
def test_other_names_are_no_git_names(name: str) -> None:
    assert not is_git_name(name)


@pytest.mark.parametrize(
    ("target", "depth", "leaves"),
    [
        ("a", 0, False),
        ("a/b/c", 0, False),
        ("./a", 0, False),
        ("../a", 1, False),
        ("../../a", 2, False),
        ("..", 1, False),
        ("a..b/c", 0, False),
        ("../a", 0, True),
        ("../../a", 1, True),
        ("..", 0, True),
        ("a/../b", 1, True),
        ("a/..", 1, True),
        ("./../..", 1, True),
        ("/a", 3, True),
        ("", 0, True),
        ("a\\b", 0, True),
        (".git/config", 0, True),
        ("../.GIT", 1, True),
    ],
)
def test_link_may_lead_only_into_its_tree(target: str, depth: int, leaves: bool) -> None:
    assert leaves_tree(target, depth) is leaves


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git-upload-pack '/den'", GitCommand("git-upload-pack", "den")),
        ("git-upload-pack 'den.git'", GitCommand("git-upload-pack", "den")),
        ("git-receive-pack '/den.git/'", GitCommand("git-receive-pack", "den")),
        ("git upload-pack den", GitCommand("git-upload-pack", "den")),
        ("git-upload-pack --strict 'den'", GitCommand("git-upload-pack", "den")),
        ("git-upload-archive '/den'", GitCommand("git-upload-archive", "den")),
        ("git-upload-pack '../den'", GitCommand("git-upload-pack", "")),
        ("git-upload-pack", GitCommand("git-upload-pack", "")),
        ("git-upload-pack den other", GitCommand("git-upload-pack", "")),
        ("git clone den", None),
        ("git", None),
        ("look", None),
        ("git-upload-pack 'den", None),
        ("", None),
    ],
)
def test_commands_of_git_name_a_room(command: str, expected: GitCommand | None) -> None:
    assert parse_git_command(command) == expected
