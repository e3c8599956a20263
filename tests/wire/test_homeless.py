"""The program as a user without a home directory, or with one it may not write."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver.fixtures import homes
from support.stranger import USER_ID, as_stranger

SECONDS = 60.0
LISTENING = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")


def rarely(value: object) -> Any:
    """Return a parameter that only the run of all tests tries."""
    return pytest.param(value, marks=pytest.mark.soak)


@pytest.fixture
def folder() -> Iterator[Path]:
    with homes() as make:
        made = make()
        os.chown(made, USER_ID, USER_ID)
        yield made


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        as_stranger("-m", "sshwarma.cli", *words),
        cwd="/", env={"PATH": os.environ["PATH"]} | environ,
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip


@pytest.mark.parametrize(
    "words", [["serve", *LISTENING], *map(rarely, (["keys", "list"], ["info"]))]
)
def test_without_a_home_one_sentence_says_what_to_set(words: list[str]) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "sshwarma: invalid settings:\n"
        "  data_dir: there is no home directory for it; give --data-dir or SSHWARMA_DATA_DIR\n"
    )


@pytest.mark.parametrize("home", ["/nonexistent", *map(rarely, ("/", "/root"))])
def test_home_that_cannot_be_written_is_named_with_what_to_set(home: str) -> None:
    done = run("serve", *LISTENING, HOME=home)
    assert done.returncode == 1
    path = f"{home.rstrip('/')}/.local/share/sshwarma"
    assert done.stderr == (
        f"sshwarma: Cannot use the data directory {path}: permission denied."
        " Choose another with --data-dir DIR or SSHWARMA_DATA_DIR.\n"
    )
    checked = run("doctor", HOME=home)
    assert checked.returncode == 1
    assert f"FAIL  data directory: {path} cannot be created" in checked.stdout


@pytest.mark.parametrize("environ", [{}, *map(rarely, ({"HOME": "/"}, {"HOME": "/root"}))], ids=str)
def test_everything_works_with_a_data_directory(folder: Path, environ: dict[str, str]) -> None:
    """A server starts, is operated, and ends."""
    data_dir = str(folder / "data")
    env = {"PATH": os.environ["PATH"], "SSHWARMA_DATA_DIR": data_dir} | environ
    with subprocess.Popen(
        as_stranger("-m", "sshwarma.cli", "serve", *LISTENING), cwd="/", env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        ready = process.stdout.readline()
        try:
            assert ready.startswith("ready "), process.communicate(timeout=SECONDS)
            with urllib.request.urlopen(
                f"http://{ready.rpartition('=')[2].strip()}/healthz"
            ) as page:
                assert page.status == 200
            assert "owner" in run("agents", "list", **env).stdout
            assert run("doctor", "--data-dir", data_dir, **environ).returncode == 0
        finally:
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, log


@pytest.mark.parametrize(
    "words",
    [
        ["backup", "-"],
        *map(rarely, (["backup", "x.tar.gz"], ["init"], ["reload"], ["broadcast", "x"], ["info"])),
    ],
)
def test_another_user_reads_whose_world_it_is(words: list[str]) -> None:
    with homes() as make:
        data = make() / "data"
        data.mkdir(mode=0o700)
        (data / "world.db").write_bytes(b"SQLite format 3\0")
        done = run(*words, SSHWARMA_DATA_DIR=str(data))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"sshwarma: The directory {data} belongs to "), done.stderr
