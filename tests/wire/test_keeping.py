"""A running server that is kept: backups, space on disk, messages to everyone."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support.driver import Server
from support.driver.covers import covers
from support.driver.fixtures import homes
from support.driver.server import PROGRAM
from support.waiting import wait_until


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own, which makes backups each day."""
    with homes() as home:
        made = Server(home(), backup__every="1d", backup__keep="2")
        yield made
        assert made.stop() == 0


def backups(server: Server) -> list[Path]:
    return sorted((server.data_dir / "backups").glob("world-*.tar.gz"))


def test_server_backs_up_keeps_some_and_survives_a_kill(server: Server) -> None:
    wait_until(lambda: backups(server))
    (first,) = backups(server)
    assert first.stat().st_mode & 0o777 == 0o600
    wait_until(lambda: str(first) in server.log())
    server.kill()
    server.start()
    wait_until(lambda: server.log().count("namespace") or server.owner.run("look").status == 0)
    assert backups(server) == [first], "the last one is recent"
    for _ in range(3):
        server.stop()
        for path in backups(server):
            made = datetime.fromisoformat(path.name[6:16]) - timedelta(days=2)
            path.rename(path.with_name(f"world-{made:%Y-%m-%d}{path.name[16:]}"))
        before = set(backups(server))
        server.start()
        wait_until(lambda before=before: set(backups(server)) - before)
    wait_until(lambda: len(backups(server)) == 2)
    assert first not in backups(server)


def test_reload_starts_backups_elsewhere(tmp_path: Path) -> None:
    server = Server(tmp_path / "s")
    try:
        (server.home / "sshwarma.toml").write_text(
            f'[backup]\nevery = "12h"\ndirectory = "{tmp_path}/copies"\n'
        )
        shown = server.cli("reload")
        assert "backup.every: off -> 12h" in shown.stdout
        wait_until(lambda: list((tmp_path / "copies").glob("world-*.tar.gz")))
        (server.home / "sshwarma.toml").write_text('[backup]\nevery = "5m"\n')
        wrong = server.cli("reload")
        assert wrong.returncode == 2 and "backup.every: must be from 1h to 366d" in wrong.stderr
    finally:
        server.stop()


def test_backup_passes_through_a_pipe_to_another_machine(server: Server, tmp_path: Path) -> None:
    assert server.owner.run("put plan = move house").status == 0
    words = [str(PROGRAM), "backup", "-", "--data-dir", str(server.data_dir)]
    with (tmp_path / "b.tar.gz").open("wb") as file:
        made = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, text=True, check=True)
    assert "Wrote standard output" in made.stderr
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        assert tar.getnames() == ["manifest.json", "world.db"]
    target = tmp_path / "elsewhere"
    words = [str(PROGRAM), "restore", "-", "--data-dir", str(target)]
    with (tmp_path / "b.tar.gz").open("rb") as file:
        restored = subprocess.run(words, stdin=file, capture_output=True, text=True, check=True)
    assert "Restored" in restored.stdout
    assert sorted(path.name for path in target.iterdir()) == ["sshwarma.lock", "world.db"]
    with (tmp_path / "half").open("wb") as file:
        file.write((tmp_path / "b.tar.gz").read_bytes()[:5_000])
    with (tmp_path / "half").open("rb") as file:
        words = [str(PROGRAM), "restore", "-", "--force", "--data-dir", str(target)]
        cut = subprocess.run(words, stdin=file, capture_output=True, text=True, check=False)
    assert cut.returncode == 1 and "not a readable backup" in cut.stderr
    left = [path.name for path in server.data_dir.iterdir() if path.name.startswith(".")]
    assert left == []


def test_backup_is_not_written_to_a_terminal(server: Server) -> None:
    words = f"{PROGRAM} backup - --data-dir {server.data_dir}"
    shown = subprocess.run(
        ["script", "-qec", words, "/dev/null"], capture_output=True, text=True, check=False
    )
    assert "Redirect it" in shown.stdout


def test_vacuum_of_a_running_and_of_a_stopped_server(server: Server) -> None:
    running = server.cli("vacuum")
    assert running.returncode == 0, running.stderr
    assert "MiB to the disk" in running.stdout
    server.stop()
    stopped = json.loads(server.cli("vacuum", "--json").stdout)
    assert stopped["returned"] >= 0
    server.start()
    assert server.owner.run("look").status == 0


@covers("broadcast")
def test_broadcast_reaches_every_room_and_door(server: Server) -> None:
    owner, bob = server.owner, server.person("bob")
    screen, there = owner.sit(), bob.sit()
    screen.wait_for_prompt("lobby")
    there.wait_for_prompt("lobby")
    screen.type("/create den\r")
    screen.wait_for_prompt("den")
    sent = server.cli("broadcast", "Tea", "at four.")
    assert sent.stdout == "Sent to 2 agents.\n", sent.stderr
    for one in (screen, there):
        one.wait_for("To everyone, from the operator: Tea at four.")
    assert owner.run("broadcast The end is near.").out == "Sent to 2 agents.\n"
    there.wait_for(f"To everyone, from {owner.name}: The end is near.")
    refused = bob.run("broadcast me too")
    assert refused.status == 1 and "admin right" in refused.err
    for words in ("", "x" * 20_000):
        wrong = server.cli("broadcast", "-", stdin=words)
        assert wrong.returncode == 1 and "message" in wrong.stderr.lower()
    server.stop()
    none = server.cli("broadcast", "anyone?")
    assert none.returncode == 1 and "No server is running" in none.stderr
    server.start()
