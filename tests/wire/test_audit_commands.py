"""The audit rows of commands, with a server and without, and who ran them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from sshwarma.admin.data_dir_owner import name_process_user
from sshwarma.world.migrate import newest_revision
from support.driver import Server

OLDEST = Path(__file__).parent.parent / "admin" / "oldest_world.db.gz"


@pytest.fixture
def stopped(tmp_path: Path) -> Server:
    """A server that has made its world, and is not running any more."""
    server = Server(tmp_path / "s")
    server.stop()
    return server


def read_commands(server: Server, after: int = 0) -> list[tuple[str, str, str]]:
    """Return verb, request and user of the rows of the command line."""
    query = "SELECT verb, what, os_user FROM audit WHERE door = 'cli' AND n > ? ORDER BY n"
    return server.query(query, after)


def count_rows(server: Server) -> int:
    return int(server.query("SELECT max(n) FROM audit")[0][0] or 0)


def run(server: Server, *words: str) -> str:
    done = server.cli(*words)
    assert done.returncode == 0, done.stderr
    assert "The audit has no row" not in done.stderr
    return done.stdout


def check_users(rows: list[tuple[str, str, str]]) -> None:
    assert {user for _, _, user in rows} == {name_process_user(os.getpid(), os.geteuid())}


def test_commands_beside_a_server_leave_a_row(tmp_path: Path) -> None:
    server = Server(tmp_path / "s")
    try:
        before = count_rows(server)
        run(server, "backup", str(tmp_path / "b.tar.gz"))
        run(server, "host-key", "next")
        run(server, "host-key", "switch", "--now")
        run(server, "reload")
        rows = read_commands(server, before)
    finally:
        server.stop()
    assert [verb for verb, _, _ in rows] == ["backup", "host-key", "host-key", "reload"]
    assert rows[0][1] == str(tmp_path / "b.tar.gz")
    assert rows[1][1].removeprefix("next ") == rows[2][1].removeprefix("switch --now ")
    check_users(rows)


def test_commands_without_a_server_leave_a_row(stopped: Server, tmp_path: Path) -> None:
    before = count_rows(stopped)
    run(stopped, "host-key", "next")
    run(stopped, "host-key", "switch", "--now")
    run(stopped, "vacuum")
    run(stopped, "backup", str(tmp_path / "b.tar.gz"))
    rows = read_commands(stopped, before)
    assert [verb for verb, _, _ in rows] == ["host-key", "host-key", "vacuum", "backup"]
    assert rows[0][1].removeprefix("next ") == rows[1][1].removeprefix("switch --now ")
    check_users(rows)
    run(stopped, "restore", str(tmp_path / "b.tar.gz"), "--force")
    [*_, restored] = read_commands(stopped)
    assert restored[0] == "restore"
    assert restored[1].startswith(f"{tmp_path / 'b.tar.gz'} of 20")
    check_users([restored])


@pytest.mark.sqlite
def test_new_world_names_who_made_it(stopped: Server, tmp_path: Path) -> None:
    (stopped.data_dir / "world.db").unlink()
    run(stopped, "init")
    assert [(verb, request) for verb, request, _ in read_commands(stopped)] == [("init", "")]
    check_users(read_commands(stopped))


@pytest.mark.sqlite
def test_world_of_an_older_schema_has_its_row_after_the_upgrade(
    stopped: Server, tmp_path: Path
) -> None:
    """Its audit cannot hold one yet, which the command says."""
    (stopped.data_dir / "world.db").write_bytes(gzip.decompress(OLDEST.read_bytes()))
    done = stopped.cli("backup", str(tmp_path / "old.tar.gz"))
    assert done.returncode == 0 and "The audit has no row of this command: " in done.stderr
    run(stopped, "migrate")
    rows = read_commands(stopped)
    assert rows[-1][:2] == ("migrate", f"0002 to {newest_revision()}")
    check_users(rows[-1:])


def test_keys_of_one_file_have_a_row_each(tmp_path: Path) -> None:
    """Twenty fingerprints are longer than a row."""
    server = Server(tmp_path / "s")
    try:
        keys = [server.stranger(f"k{number}").public_key for number in range(20)]
        added = server.operate("keys_add", name="many", public_key="\n".join(keys), role="guest")
        rows = server.operate("audit_list", verb="keys")[-20:]
        assert [row["request"] for row in rows] == [
            f"add many --role guest {key['fingerprint']}" for key in added["keys"]
        ]
    finally:
        server.stop()
