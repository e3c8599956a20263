"""A running server that is kept: backups, space on disk, messages to everyone."""

from __future__ import annotations

import json
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sshwarma.common.exit_status import EXIT_USAGE
from support.driver import Server
from support.driver.covers import covers
from support.driver.fixtures import homes
from support.driver.server import PROGRAM, forked_program
from support.metrics import scrape
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
    made_at = "sshwarma_last_backup_timestamp_seconds"
    wait_until(lambda: made_at in scrape(server).names())  # it has looked
    assert backups(server) == [first], "the last one is recent"
    for day in range(1, 4):
        server.stop()
        for path in backups(server):
            path.rename(path.with_name(f"{path.name[:17]}-2020-01-{day:02}-{path.name[-13:]}"))
        before = set(backups(server))
        server.start()
        wait_until(lambda before=before: set(backups(server)) - before)
    wait_until(lambda: len(backups(server)) == 2)
    assert not [path for path in backups(server) if "2020-01-01" in path.name]


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


@pytest.mark.sqlite
def test_backup_passes_through_a_pipe_to_another_machine(server: Server, tmp_path: Path) -> None:
    assert server.owner.run("put plan = move house").status == 0
    words = [str(forked_program()), "backup", "-", "--data-dir", str(server.data_dir)]
    with (tmp_path / "b.tar.gz").open("wb") as file:
        made = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, text=True, check=True)
    assert "Wrote standard output" in made.stderr
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        assert tar.getnames() == ["manifest.json", "world.db"]
    target = tmp_path / "elsewhere"
    words = [str(forked_program()), "restore", "-", "--data-dir", str(target)]
    with (tmp_path / "b.tar.gz").open("rb") as file:
        restored = subprocess.run(words, stdin=file, capture_output=True, text=True, check=True)
    assert "Restored" in restored.stdout
    assert sorted(path.name for path in target.iterdir()) == ["sshwarma.lock", "world.db"]
    with (tmp_path / "half").open("wb") as file:
        file.write((tmp_path / "b.tar.gz").read_bytes()[:5_000])
    with (tmp_path / "half").open("rb") as file:
        words = [str(forked_program()), "restore", "-", "--force", "--data-dir", str(target)]
        cut = subprocess.run(words, stdin=file, capture_output=True, text=True, check=False)
    assert cut.returncode == 1 and "not a readable backup" in cut.stderr
    left = [path.name for path in server.data_dir.iterdir() if path.name.startswith(".")]
    assert left == []


def test_command_that_is_terminated_leaves_nothing(server: Server, tmp_path: Path) -> None:
    words = [str(forked_program()), "restore", "-", "--data-dir", str(tmp_path / "new")]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        wait_until(lambda: list((tmp_path / "new").glob(".sshwarma-work-*/backup")))
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
    assert not (tmp_path / "new").exists()


@pytest.mark.sqlite
def test_leftovers_of_a_killed_command_go_at_the_next_start(server: Server) -> None:
    words = [str(PROGRAM), "restore", "-", "--force", "--data-dir", str(server.data_dir)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert b"Another sshwarma is using" in process.communicate()[1], "before it reads"
    server.stop()
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        wait_until(lambda: list(server.data_dir.glob(".sshwarma-work-*/backup")))
        process.kill()
    assert list(server.data_dir.glob(".sshwarma-work-*"))
    server.start()
    assert not list(server.data_dir.glob(".sshwarma-work-*"))


@pytest.mark.sqlite
def test_backup_is_restored_from_a_pipe_that_has_a_name(server: Server, tmp_path: Path) -> None:
    assert server.cli("backup", str(tmp_path / "b.tar.gz")).returncode == 0
    command = f'"$0" restore <(cat {tmp_path}/b.tar.gz) --data-dir {tmp_path}/new'
    restored = subprocess.run(
        ["bash", "-c", command, str(PROGRAM)], capture_output=True, text=True, check=False
    )
    assert (restored.returncode, restored.stderr) == (0, "")
    assert (tmp_path / "new" / "world.db").exists()


@pytest.mark.sqlite
def test_warnings_of_a_command_are_not_in_its_json(server: Server, tmp_path: Path) -> None:
    assert server.cli("backup", str(tmp_path / "b.tar.gz")).returncode == 0
    (tmp_path / "new").mkdir(mode=0o755)
    (tmp_path / "new" / "sshwarma.lock").touch()
    words = ["restore", str(tmp_path / "b.tar.gz"), "--json", "--data-dir", str(tmp_path / "new")]
    restored = subprocess.run(
        [str(forked_program()), *words], capture_output=True, text=True, check=True
    )
    assert json.loads(restored.stdout)["missing_blobs"] == 0
    assert "access of other users was removed" in restored.stderr


def test_restore_from_what_is_no_backup_leaves_a_directory_as_it_was(tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir(mode=0o755)
    for source, told in (
        ("restore /dev/zero", "/dev/zero is not a backup"),
        ("restore - < /dev/zero", "standard input is not a backup"),
        ("restore - <&-", "standard input is empty."),
    ):
        tried = subprocess.run(
            ["bash", "-c", f'"$0" {source} --data-dir {new}', str(PROGRAM)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert tried.returncode == 1
        assert tried.stderr.startswith(f"sshwarma: {told}"), tried.stderr
        assert (list(new.iterdir()), new.stat().st_mode & 0o777) == ([], 0o755)


def test_junk_is_refused_by_its_name_and_makes_no_world(tmp_path: Path) -> None:
    new = tmp_path / "new"
    junk = tmp_path / "junk"
    junk.write_bytes(b"no backup")
    for word, name in ((str(junk), str(junk)), ("-", "standard input")):
        words = [str(forked_program()), "restore", word, "--data-dir", str(new)]
        with junk.open("rb") as file:
            tried = subprocess.run(words, stdin=file, capture_output=True, text=True, check=False)
        assert tried.returncode == 1
        assert tried.stderr.startswith(f"sshwarma: {name} is not a backup: it is neither")
        assert not new.exists()


@pytest.mark.sqlite
def test_damaged_world_is_a_sentence_of_every_command(server: Server, tmp_path: Path) -> None:
    server.stop()
    database = server.data_dir / "world.db"
    with database.open("r+b") as file:
        file.seek(20_000)
        file.write(b"w" * (database.stat().st_size - 30_000))
    for words in (
        ["backup", str(tmp_path / "b.tar.gz")],
        ["keys", "list"],
        ["keys", "add", "eve", "-"],
        ["serve"],
    ):
        tried = server.cli(*words, stdin="ssh-ed25519 AAAA")
        assert tried.returncode == 1, words
        assert "damaged" in tried.stderr and "estore" in tried.stderr, (words, tried.stderr)
        assert "Traceback" not in tried.stderr
    assert not (tmp_path / "b.tar.gz").exists()


def test_backup_is_not_written_to_a_terminal(server: Server) -> None:
    words = f"{forked_program()} backup - --data-dir {server.data_dir}"
    shown = subprocess.run(
        ["script", "-qec", words, "/dev/null"], capture_output=True, text=True, check=False
    )
    assert "Redirect it" in shown.stdout


@pytest.mark.sqlite
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
        assert wrong.returncode == EXIT_USAGE and "message" in wrong.stderr.lower()
    secret = server.cli("broadcast", "my key: sk-proj-abcdefghijklmnopqrstuvwxyz0123456789")
    assert secret.returncode == EXIT_USAGE and "looks like it contains a key" in secret.stderr
    server.stop()
    none = server.cli("broadcast", "anyone?")
    assert none.returncode == 1 and "No server is running" in none.stderr
    server.start()
