"""A server whose log cannot be written goes on."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver.fixtures import homes
from support.driver.person import CLEAN
from support.driver.server import PROGRAM, forked_program
from support.metrics import Scrape
from support.waiting import SECONDS


@pytest.fixture
def home() -> Iterator[Path]:
    with homes() as make:
        yield make()


def ssh(home: Path, ready: str, *words: str) -> subprocess.CompletedProcess[str]:
    port = ready.split()[1].rpartition(":")[2]
    return subprocess.run(
        [
            *("ssh", "-F", "/dev/null", "-T", "-o", "StrictHostKeyChecking=no"),
            *("-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes"),
            *("-i", str(home / "data" / "operator_ed25519"), "-p", port, "operator@127.0.0.1"),
            *words,
        ],
        env=CLEAN | {"HOME": str(home)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("log", ["/dev/full", "pipe"])
def test_login_and_stop_do_not_wait_for_the_log(home: Path, log: str) -> None:
    """A full disk, and a program such as multilog that has ended."""
    words = ["serve", "--data-dir", str(home / "data"), "--listen", "127.0.0.1:0"]
    words += ["--http", "127.0.0.1:0"]
    with (
        Path("/dev/full" if log == "/dev/full" else "/dev/null").open("w") as full,
        subprocess.Popen(
            [str(forked_program()), *words],
            env=CLEAN | {"HOME": str(home), "USER": "operator"}, cwd=home, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE if log == "pipe" else full,
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            if process.stderr is not None:
                process.stderr.close()
            for _ in range(2):
                assert ssh(home, ready, "look").stdout.startswith("lobby")
            address = ready.split()[2].removeprefix("http=")
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=SECONDS) as answer:
                page = Scrape(answer.read().decode())
            assert page.value("sshwarma_lost_log_lines_total") >= 2  # of each login and logout
            process.terminate()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


def test_server_goes_on_without_standard_output(home: Path) -> None:
    """As with `>> log 2>&1` on a full disk."""
    words = ["serve", "--data-dir", str(home / "data"), "--listen", "127.0.0.1:0", "--http", "off"]
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(
            [str(forked_program()), *words],
            env=CLEAN | {"HOME": str(home), "USER": "operator"}, cwd=home, text=True,
            stdout=full, stderr=subprocess.PIPE,
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stderr is not None
            log = [process.stderr.readline()]
            while "the ready line was not written" not in log[-1]:
                assert log[-1], log
                log.append(process.stderr.readline())
            assert "No space left on device" in log[-1]
            (at,) = [word for line in log for word in line.split() if word.startswith("ssh=")]
            assert ssh(home, f"ready {at}", "look").stdout.startswith("lobby")
            process.terminate()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


def test_second_world_in_the_home_of_a_service_is_refused(home: Path) -> None:
    """A service that is started by hand, without the environment of its unit."""
    serving = [str(PROGRAM), "init", "--data-dir", str(home)]
    environ = CLEAN | {"HOME": str(home)}
    subprocess.run(serving, env=environ, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "sshwarma.cli", "serve"], env=environ, capture_output=True,
        text=True, check=False, cwd=home, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"The directory {home} contains a world" in done.stderr
    assert f"--data-dir {home}" in done.stderr
    assert not (home / ".local").exists()


@pytest.mark.parametrize("way", ["variable", "file"])
def test_empty_data_dir_is_refused(home: Path, way: str) -> None:
    environ = CLEAN | {"HOME": str(home)}
    if way == "variable":
        environ["SSHWARMA_DATA_DIR"] = ""
    else:
        (home / "sshwarma.toml").write_text('data_dir = ""\n')
    done = subprocess.run(
        [str(PROGRAM), "serve"], env=environ, capture_output=True, text=True, check=False,
        cwd=home, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 2
    assert "must not be empty" in done.stderr, done
    assert not (home / "world.db").exists()
