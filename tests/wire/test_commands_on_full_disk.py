"""Commands of the operator on a full disk: one sentence, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver import Server
from support.full_disk import filled, server_on_small_disk

pytestmark = pytest.mark.sqlite


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with a person carol, whose data directory is a small file system."""
    with server_on_small_disk() as made:
        made.person("carol")
        yield made


def list_changes(server: Server) -> list[tuple[str, ...]]:
    """Return each command that changes agents or keys."""
    key = server.home / "new.pub"
    key.write_text(server.stranger("dora").public_key)
    fingerprint = next(one["fingerprint"] for one in server.operate("keys_list", name="carol"))
    return [
        ("agents", "disable", "carol"),
        ("agents", "role", "carol", "admin"),
        ("agents", "rename", "carol", "caroline"),
        ("agents", "remove", "carol"),
        ("keys", "add", "carol", str(key)),
        ("keys", "remove", "carol", fingerprint),
        ("recover", "rita", str(key)),
        ("token", "new", "carol", "--label", "x"),
    ]


def check_refusals(server: Server, changes: list[tuple[str, ...]]) -> None:
    before = server.cli("agents", "list").stdout + server.cli("keys", "list").stdout
    for words in changes:
        refused = server.cli(*words)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == (
            "sshwarma: The disk is full. Nothing was stored. Make room on the disk of"
            f" {server.data_dir}.\n"
        ), words
    assert server.cli("agents", "list").stdout + server.cli("keys", "list").stdout == before


def test_commands_on_a_full_disk_name_it_and_change_nothing(server: Server) -> None:
    changes = list_changes(server)
    with filled(server.data_dir):
        check_refusals(server, changes)
        refused = server.cli("host-key", "next").stderr
        path = server.data_dir / "ssh_host_ed25519_key.next"
        assert (
            refused == f"sshwarma: The disk is full: {path}. Make room, or choose another place.\n"
        )
        server.kill()  # leaves a log, so that opening the database needs no room
        check_refusals(server, changes)
    server.start()


def test_commands_that_cannot_open_the_database_say_that_the_disk_is_full(
    server: Server, tmp_path: Path
) -> None:
    changes = list_changes(server)
    assert server.stop() == 0
    with filled(server.data_dir):
        for words in changes:
            refused = server.cli(*words)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert refused.stderr == (
                f"sshwarma: {server.data_dir / 'world.db'} cannot be used: the disk is full, and"
                " SQLite makes files beside the database. Make room on it; nothing was changed.\n"
            ), words
        made = server.cli("backup", str(tmp_path / "world.tar.gz"))
        assert made.returncode == 0, made.stderr
        assert "The audit has no row of this command" in made.stderr
    server.start()
