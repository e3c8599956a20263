"""What the operator reads when something is wrong: one sentence, and what to do."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import sshwarma
from sshwarma.cli.failures import describe_failure
from sshwarma.cli.main import main
from sshwarma.common.user_names import name_user
from support.driver import Server
from support.driver.fixtures import homes
from support.driver.forkserver import SETUP
from support.driver.server import PROGRAM, forked_program
from support.full_disk import filled, small_disk
from support.waiting import wait_until

pytestmark = pytest.mark.process

SERVE = ["serve", "--listen", "127.0.0.1:0", "--http", "off"]
PATIENCE = 1.0
IMPATIENT = {
    SETUP: "import sshwarma.admin.control_client as control_client\n"
    f"control_client.CONTROL_TIMEOUT_SECONDS = {PATIENCE}"
}
"""Makes a command wait less long for a server."""


@dataclass
class Place:
    """A home directory, a data directory with a world, and a port that is taken."""

    home: Path
    port: int

    @property
    def data(self) -> Path:
        return self.home / "data"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        place_of = () if "--data-dir" in words else ("--data-dir", str(self.data))
        return subprocess.run(
            [str(forked_program()), *words, *place_of],
            capture_output=True, text=True, check=False, timeout=60, cwd=self.home,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)} | IMPATIENT,
        )  # fmt: skip


@pytest.fixture
def place(newborn: Path) -> Iterator[Place]:
    with homes() as make, contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        made = Place(make(), taken.getsockname()[1])
        made.data.mkdir(mode=0o700)
        shutil.copyfile(newborn, made.data / "world.db")
        yield made


def damage(place: Place) -> None:
    (place.data / "world.db").write_bytes(b"no database " * 1000)


def cut(place: Place) -> None:
    os.truncate(place.data / "world.db", 5000)


def empty(place: Place) -> None:
    os.truncate(place.data / "world.db", 0)


def leave(place: Place) -> None:
    """Change nothing."""


def fill_folder(place: Place) -> None:
    (place.data / "world.db").unlink()
    folder = place.home / "folder"
    folder.mkdir()
    (folder / "file").touch()
    (folder / "cut").write_bytes(gzip.compress(b"x" * 1000)[:15])
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "socket"))


RESTORE = r"is damaged: .+\. Restore a backup: sshwarma restore FILE --force --data-dir \S+"
TABLE = [
    (damage, SERVE, RESTORE),
    (damage, ["backup", "out.tar.gz"], RESTORE),
    (damage, ["audit"], RESTORE),
    (damage, ["keys", "list"], RESTORE),
    (damage, ["migrate"], RESTORE),
    (cut, SERVE, RESTORE),
    (cut, ["backup", "out.tar.gz"], RESTORE),
    (cut, ["audit"], RESTORE),
    (empty, SERVE, r"is empty\. .+ restore a backup: sshwarma restore FILE"),
    (leave, [*SERVE[:1], "--listen", "127.0.0.1:PORT", "--http", "off"],
     r"Cannot listen on \S+: another process uses the address\. Choose another with --listen"),
    (leave, [*SERVE[:3], "--http", "127.0.0.1:PORT"],
     r"Cannot listen on \S+: another process uses the address\. Choose another with --http"),
    (leave, ["keys", "add", "ann", "nofile.pub"], r"nofile\.pub not found\. Check the path\."),
    (leave, ["backup", "nowhere/out.tar.gz"], r"The directory \S+/nowhere does not exist\."),
    (fill_folder, ["restore", "folder"], r"folder is a directory\. Name a file\."),
    (fill_folder, ["restore", "folder/file/x"], r"a part of this path is a file\. Check the path"),
    (fill_folder, ["restore", "folder/socket"], r"socket is a socket\. Name a file\."),
    (fill_folder, ["restore", "folder/file"], r"file is empty\. If it was made by a command, see"),
    (fill_folder, ["restore", "folder/cut"], r"cut is not a readable backup: its end is missing"),
    (fill_folder, ["info", "--data-dir", "folder/file"], r"file is a file\. --data-dir is the dir"),
    (leave, ["reload"], r"No server is running on \S+\. Give the --data-dir of one that is\."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prepare", "words", "said"), TABLE, ids=[f"{p.__name__}-{w[0]}" for p, w, _ in TABLE]
)
def test_failure_is_one_sentence_with_what_to_do(
    prepare: object, words: list[str], said: str, place: Place
) -> None:
    assert callable(prepare)
    prepare(place)
    done = place.run(*(word.replace("PORT", str(place.port)) for word in words))
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert re.search(rf"^sshwarma: .*{said}", last), done.stderr
    assert not (place.home / "out.tar.gz").exists()


@pytest.mark.parametrize("words", [["--config", ""], ["--config="], ["--data-dir", ""]], ids=str)
def test_empty_name_of_an_option_is_named(place: Place, words: list[str]) -> None:
    done = place.run("doctor", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{words[0].rstrip('=')}': must not be empty." in done.stderr


def test_restore_says_when_nobody_can_log_in(place: Place) -> None:
    source = place.home / "copy.db"
    shutil.copyfile(place.data / "world.db", source)
    with contextlib.closing(sqlite3.connect(source)) as copy:
        copy.execute("DELETE FROM agent_keys")
        copy.commit()
    said = "Nobody in it can log in as an owner."
    done = place.run("restore", str(source), "--force")
    assert done.returncode == 0 and said in done.stdout, done
    done = place.run("restore", str(source), "--force", "--json")
    assert json.loads(done.stdout)["owners"] == 0


def test_restore_of_a_plain_copy_says_what_it_may_lack(place: Place) -> None:
    shutil.copyfile(place.data / "world.db", place.home / "copy.db")
    with contextlib.closing(sqlite3.connect(place.home / "copy.db")) as copy:
        copy.execute("PRAGMA journal_mode = WAL")
    done = place.run("restore", "copy.db", "--force")
    assert done.returncode == 0
    assert "rows newer than its last checkpoint may be missing. sshwarma backup" in done.stdout


def test_backup_to_a_full_disk_names_the_disk(place: Place) -> None:
    target = place.home / "stick"
    with small_disk(target) as is_mounted:
        if is_mounted:
            with filled(target):
                done = place.run("backup", "stick/out.tar.gz")
                left = [path for path in target.iterdir() if path.name != "filling"]
        else:  # no file may have more than one page
            limited = ["prlimit", "--fsize=4096", str(PROGRAM), "backup"]
            done = subprocess.run(
                [*limited, "stick/out.tar.gz", "--data-dir", str(place.data)],
                capture_output=True, text=True, check=False, timeout=60, cwd=place.home,
                env={"PATH": os.environ["PATH"], "HOME": str(place.home)},
            )  # fmt: skip
            left = list(target.iterdir())
    assert done.returncode == 1
    assert not left
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("sshwarma: ")
    assert "was not copied: " in done.stderr or "The disk is full" in done.stderr
    assert ("is full. Make room, or choose another place." in done.stderr) == is_mounted


def test_backup_to_a_directory_that_cannot_be_written_names_it_and_the_pipe(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file that is made there first has a name that nobody knows."""
    target = place.home / "closed"
    target.mkdir()
    make = os.mkdir

    def refuse(path: str, *rest: int) -> None:
        if Path(path).parent == target:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        make(path, *rest)

    monkeypatch.setattr(os, "mkdir", refuse)
    monkeypatch.chdir(place.home)
    words = ["backup", "closed/out.tar.gz", "--data-dir", str(place.data)]
    assert main(words) == 1
    assert capsys.readouterr().err == (
        f"sshwarma: Permission denied: {target}. You are {name_user(os.geteuid())}. Pipe it"
        " instead: - is standard input or output.\n"
    )


@pytest.mark.parametrize(("words", "is_offered"), [
    (["keys", "add", "ann", "/closed/key"], True),
    (["restore", "/closed/key", "--json"], True),
    (["backup", "/closed/key/out.tar.gz"], True),
    (["backup", "out.tar.gz", "--data-dir", "/closed/key"], False),
    (["restore", "-", "--data-dir=/x", "/closed/key"], False),
    (["keys", "list", "--config", "/closed/key"], False),
    (["broadcast", "restore", "/closed/key"], False),
])  # fmt: skip
def test_pipe_is_offered_in_the_place_of_a_file_of_a_command_that_takes_it(
    words: list[str], is_offered: bool
) -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/closed/key")
    text = describe_failure(error, words)
    assert text.startswith("Permission denied: /closed/key.")
    assert ("Pipe it instead: - is standard input or output." in text) == is_offered


def test_server_that_is_stopped_is_reported_after_a_while() -> None:
    with homes() as make:
        server = Server(make())
        place = Place(server.home, 0)
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            for words in (["keys", "list"], ["reload"], ["audit"], ["invite"]):
                done = place.run(*words)
                assert (done.returncode, done.stdout) == (1, ""), words
                assert done.stderr == (
                    f"sshwarma: The server did not answer within {PATIENCE:g} s. It is stopped or"
                    " too busy: see its log, continue it with kill -CONT, or restart it. When it"
                    " goes on, it may still do this.\n"
                ), words
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        assert place.run("keys", "list").returncode == 0
        assert server.stop() == 0
        assert "Traceback" not in server.log()


@pytest.mark.parametrize(
    "closed",
    [
        "<&- >&- 2>&-",
        *(pytest.param(f"{one}&-", marks=pytest.mark.soak) for one in ("<", ">", "2>")),
    ],
)
def test_closed_standard_streams_are_no_failure(place: Place, closed: str) -> None:
    at, environ = f"--data-dir {place.data}", {"PATH": os.environ["PATH"], "HOME": str(place.home)}
    for words in (
        *("version", f"keys list {at}", f"keys add ann - {at}"),
        *(f"broadcast - {at}", f"backup - {at}"),
    ):
        done = subprocess.run(
            ["bash", "-c", f'"$0" {words} {closed}', str(PROGRAM)], input="", env=environ,
            capture_output=True, text=True, errors="replace", check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode in (0, 1, 2), (words, done.stderr)
        assert "Traceback" not in done.stderr
    start = f'exec "$0" {" ".join(SERVE)} {at} {closed}'
    with subprocess.Popen(
        ["bash", "-c", start, str(PROGRAM)], env=environ,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as server:  # fmt: skip
        wait_until(lambda: (place.data / "control.sock").exists() or server.poll() is not None)
        assert server.poll() is None
        server.terminate()
    assert server.returncode == 0


def test_backup_to_a_closed_stream_is_refused(place: Place) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$0" backup - --data-dir {place.data} >&-', str(PROGRAM)],
        env={"PATH": os.environ["PATH"], "HOME": str(place.home)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Standard output is closed. Name a file: sshwarma backup FILE" in done.stderr


def test_version_is_an_option_and_a_command(place: Place) -> None:
    for words in (["--version"], ["version"]):
        done = subprocess.run(
            [str(PROGRAM), *words], capture_output=True, text=True, check=False, timeout=60
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, f"sshwarma {sshwarma.__version__}\n")


@pytest.mark.parametrize("flag", ["--config=log.toml", "--config log.toml", ""])
def test_wrong_usage_of_serve_is_a_line_of_the_log_in_json(tmp_path: Path, flag: str) -> None:
    (tmp_path / "log.toml").write_text('[log]\nformat = "json"\n')
    variables = {} if flag else {"SSHWARMA_LOG__FORMAT": "json"}
    done = subprocess.run(
        [str(forked_program()), "serve", *flag.split(), "--bogus"],
        capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), **variables},
    )  # fmt: skip
    [entry] = [json.loads(line) for line in (done.stdout + done.stderr).splitlines()]
    assert (done.returncode, entry["event"]) == (2, "the command is wrong")
    assert "--bogus" in entry["reason"]


def test_interpreter_that_may_not_be_executed_is_named(tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    interpreter.touch(mode=0o600)
    done = subprocess.run(
        [str(forked_program()), *SERVE, "--data-dir", str(tmp_path / "data")],
        capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path),
             SETUP: f"import sys; sys.executable = {str(interpreter)!r}"},
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    told = done.stderr.splitlines()[-1]
    assert told.startswith("sshwarma: The Lua worker cannot start: Permission denied. It is run by")
    assert f"{interpreter}, which " in told


def test_doctor_names_a_directory_in_place_of_the_database(place: Place) -> None:
    (place.data / "world.db").unlink()
    (place.data / "world.db").mkdir()
    done = place.run("doctor")
    assert done.returncode == 1
    assert f"FAIL  database: {place.data / 'world.db'} is a directory" in done.stdout


@pytest.mark.parametrize("kibibytes", [500, 700])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_disk_that_becomes_full_in_a_restore_is_one_sentence(place: Place, kibibytes: int) -> None:
    """With too little room for the check of the schema, which writes a database, too."""
    assert place.run("backup", "small.tar.gz").returncode == 0
    target = place.home / "tiny"
    target.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "none", str(target)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this root may not mount")
    try:
        done = place.run("restore", "small.tar.gz", "--data-dir", str(target / "world"))
        assert done.returncode == 1 and done.stderr.startswith("sshwarma: "), done
        assert len(done.stderr.splitlines()) == 1
        assert "full" in done.stderr or "free" in done.stderr
        assert not (target / "world").exists()
    finally:
        subprocess.run(["umount", str(target)], check=True)


def test_answer_that_cannot_be_written_is_a_failure(place: Place) -> None:
    for words in (["config", "show"], ["info", "--json"], ["doctor", "--json"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [str(PROGRAM), *words, "--data-dir", str(place.data)], stdout=full,
                stderr=subprocess.PIPE, text=True, check=False, timeout=60, cwd=place.home,
                env={"PATH": os.environ["PATH"], "HOME": str(place.home)},
            )  # fmt: skip
        assert (
            done.returncode == 1 and "its output could not be written: No space" in done.stderr
        ), (
            words,
            done,
        )
