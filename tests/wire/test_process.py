"""The process of a server: its signals, its ready line, and its log."""

from __future__ import annotations

import json
import os
import pty
import re
import selectors
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.driver.fixtures import homes
from support.driver.forkserver import SETUP
from support.driver.person import CLEAN
from support.driver.server import PROGRAM, Server, forked_program
from support.lock_files import is_locked
from support.waiting import wait_until

SECONDS = 30.0
QUIET = ("-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR",
         "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes")  # fmt: skip


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture
def home() -> Iterator[Path]:
    with homes() as make:
        yield make()


class Running:
    """A server with pipes of its own.

    `first_line` is what it printed when it was ready.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.first_line = ""

    def wait_for_log(self, text: str) -> str:
        """Read the log up to a line that contains a text; return that line."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return line
        raise AssertionError(f"the log ended without {text}")

    def stop(self, number: int = signal.SIGTERM) -> str:
        """End it by a signal; return the rest of its log."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=SECONDS)[1]


@contextmanager
def running(
    home: Path, *flags: str, listen: str = "127.0.0.1:0", code: str = "", **environ: str
) -> Iterator[Running]:
    """Start `sshwarma serve`; `code` runs in its process before it.

    A variable that the interpreter reads makes it a process that is not forked.
    """
    words = ["serve", "--data-dir", str(home / "data"), "--listen", listen, "--http", "127.0.0.1:0"]
    program = [str(forked_program())]
    environ = CLEAN | {"HOME": str(home), SETUP: code} | environ
    if "PYTHONWARNINGS" in environ:
        start = f"{environ.pop(SETUP)}\nfrom sshwarma.cli.main import program\nprogram()"
        program = [sys.executable, "-c", start]
    with subprocess.Popen(
        [*program, *words, *flags],
        env=environ, cwd=home, text=True, bufsize=1,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        made = Running(process)
        try:
            assert process.stdout is not None
            made.first_line = process.stdout.readline()
            assert made.first_line or process.wait() != 0, "it printed nothing"
            yield made
        finally:
            if process.poll() is None:
                process.kill()


# -- signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_log_has_the_signal_that_stopped_the_server(
    serve: Callable[..., Server], number: signal.Signals
) -> None:
    server = serve()
    server.process.send_signal(number)
    assert server.process.wait(SECONDS) == 0
    assert re.search(rf"stopping\s+reason={number.name}\n", server.log())
    assert re.search(r"stopped\s+seconds=\d", server.log())


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGALRM"])
def test_signals_without_a_meaning_are_ignored(serve: Callable[..., Server], name: str) -> None:
    server = serve()
    server.process.send_signal(getattr(signal, name))
    wait_until(lambda: re.search(rf"signal ignored\s+signal={name}\n", server.log()))
    assert server.stop() == 0


def test_model_and_server_of_the_settings_that_fail_are_warnings(
    serve: Callable[..., Server],
) -> None:
    model = {"name": "qwen", "kind": "compatible", "model": "m", "key_file": "/nosuch/key",
             "base_url": "http://127.0.0.1:9/v1"}  # fmt: skip
    program = {"name": "files", "command": ["nosuch-program"]}
    server = serve(models=json.dumps([model]), mcp=json.dumps([program]))

    def warning(event: str, *facts: str) -> bool:
        lines = [line for line in server.log().splitlines() if event in line and "warning" in line]
        return any(all(fact in line for fact in facts) for line in lines)

    wait_until(lambda: warning("a model cannot answer", "agent=qwen", "/nosuch/key"))
    wait_until(lambda: warning("an mcp server is down", "server=files", "nosuch-program not found"))
    assert server.stop() == 0


STUCK = """
import asyncio
import sshwarma.app
async def hang(self, *rest):
    await asyncio.Event().wait()
sshwarma.app.App.stop = hang
"""
BUSY = """
import sshwarma.app
async def spin(self, *rest):
    while True:
        pass
sshwarma.app.App.stop = spin
"""


@pytest.mark.parametrize("code", [STUCK, BUSY], ids=["waits", "does not turn"])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_at_once(home: Path, code: str, second: signal.Signals) -> None:
    with running(home, code=code) as server:
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("stopping")
        log = server.stop(second)
        assert server.process.returncode == -second
    assert "ended at once, by a second signal" in log
    assert second.name in log


def start_in_terminal(home: Path, *, nohup: bool = False) -> tuple[int, int]:
    """Start a server in a terminal of its own; return its process and the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        # Whatever the tests themselves were started by.
        signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
        os.dup2(os.open(home / "log", os.O_WRONLY | os.O_CREAT, 0o600), 2)
        os.execve(PROGRAM, [
            str(PROGRAM), "serve", "--data-dir", str(home / "data"),
            "--listen", "127.0.0.1:0", "--http", "off",
        ], CLEAN | {"HOME": str(home)})  # fmt: skip
    seen = b""
    with selectors.DefaultSelector() as selector:
        selector.register(terminal, selectors.EVENT_READ)
        while b"ready " not in seen:
            assert selector.select(SECONDS), (home / "log").read_text()
            seen += os.read(terminal, 4096)
    return pid, terminal


def test_server_stops_when_its_terminal_is_closed(home: Path) -> None:
    """SIGHUP reloads, except from the terminal that the server was started in."""
    pid, terminal = start_in_terminal(home)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    log = (home / "log").read_text()
    assert status == 0, log
    assert "reason='SIGHUP: the terminal was closed'" in log


def test_server_under_nohup_outlives_its_terminal(home: Path) -> None:
    pid, terminal = start_in_terminal(home, nohup=True)
    os.close(terminal)
    wait_until(lambda: "reloaded" in (home / "log").read_text())
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    assert status == 0
    assert "reason=SIGTERM" in (home / "log").read_text()


# -- addresses


def test_ready_line_of_ipv6_parses_and_the_printed_command_logs_in(home: Path) -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    check_login(home, "[::1]:0", r"ready ssh=\[::1\]:\d+ http=127\.0\.0\.1:\d+\n")


@pytest.mark.parametrize(
    ("listen", "host"),
    [("0.0.0.0:0", "0.0.0.0"), (":0", "0.0.0.0"), ("[::]:0", "[::]"), ("localhost:0", "localhost")],
)
@pytest.mark.sqlite
def test_address_of_a_server_on_every_address_parses(home: Path, listen: str, host: str) -> None:
    if ":" in host and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    check_login(home, listen, rf"ready ssh={re.escape(host)}:\d+ http=\S+\n", is_new=False)


def check_login(home: Path, listen: str, ready: str, *, is_new: bool = True) -> None:
    """Start a server, and log in with the command that it prints."""
    if not is_new:  # only a server on loopback makes its operator an owner
        assert Server(home).stop() == 0
    with running(home, listen=listen) as server:
        assert re.fullmatch(ready, server.first_line), server.first_line
        line = server.wait_for_log("Connect:")
        words = shlex.split(line.removeprefix("Connect:"))
        done = subprocess.run(
            ["ssh", *QUIET, *words[1:], "look"], env=CLEAN, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert done.stdout.startswith("lobby"), done.stderr
        server.stop()


def test_printed_command_names_the_agent_of_the_key_it_shows(
    serve: Callable[..., Server],
) -> None:
    server = serve(environ={"LOGNAME": "zoe"})

    def read_command() -> str:
        """Wait for the command that the last start has printed."""
        wait_until(lambda: "Connect:" in server.log()[seen:])
        return server.log()[seen:]

    seen = 0
    read_command()
    key = server.home / "zoe.pub"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key.with_suffix("")],
                   check=True)  # fmt: skip
    assert server.cli("keys", "add", "abe", str(key), "--role", "owner").returncode == 0
    seen = _restart(server)
    assert "zoe@127.0.0.1" in read_command()
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", server.home / "data" / "operator_ed25519.pub"],
        capture_output=True, text=True, check=True,
    ).stdout.split()[1]  # fmt: skip
    assert server.cli("keys", "remove", "zoe", fingerprint).returncode == 0
    seen = _restart(server)
    shown = read_command()
    assert "abe@127.0.0.1" in shown
    assert "operator_ed25519" not in shown
    assert server.stop() == 0


def _restart(server: Server) -> int:
    """Stop and start a server; return where the log of the new one begins."""
    assert server.stop() == 0
    seen = len(server.log())
    server.start()
    return seen


# -- logs


def lines_of(log: str) -> list[dict[str, Any]]:
    """Parse a log, of which every line must be a JSON object."""
    return [dict(json.loads(line)) for line in log.splitlines()]


NOISY = """
import asyncio, logging, sys, threading, warnings
import sshwarma.app
start = sshwarma.app.App.start
async def start_with_noise(*given):
    warnings.warn("something is old", DeprecationWarning, stacklevel=1)
    logging.getLogger("uvicorn.error").warning("of uvicorn")
    logging.getLogger("asyncio").error("of asyncio")
    logging.getLogger("asyncssh").critical("of asyncssh")
    thread = threading.Thread(target=lambda: 1 / 0, name="counter")
    thread.start()
    thread.join()
    asyncio.get_running_loop().call_soon(lambda: [][1])
    class Bad:
        def __del__(self):
            raise KeyError("in a destructor")
    Bad()
    return await start(*given)
sshwarma.app.App.start = start_with_noise
"""


def test_json_log_contains_nothing_else(home: Path) -> None:
    environ = {"SSHWARMA_LOG__FORMAT": "json", "PYTHONWARNINGS": "always"}
    with running(home, code=NOISY, **environ) as server:
        ready = json.loads(server.first_line)
        assert ready["event"] == "ready"
        assert re.fullmatch(r"127\.0\.0\.1:\d+", ready["ssh"])
        assert ready["pid"] == server.process.pid
        server.process.send_signal(signal.SIGUSR1)
        rows = lines_of(server.stop())
    events = {row["event"]: row for row in rows}
    assert {"first run", "host key", "connect", "signal ignored", "stopping", "stopped"} <= {
        *events
    }
    assert events["host key"]["fingerprint"] == ready["host_key"]
    assert events["connect"]["command"].startswith("ssh -i ")
    assert events["stopping"]["reason"] == "SIGTERM"
    assert {"of uvicorn", "of asyncio", "of asyncssh"} <= {*events}
    assert any("something is old" in event for event in events)
    raised = [row["exception"] for row in rows if "exception" in row]
    for error in ("ZeroDivisionError", "IndexError", "KeyError: 'in a destructor'"):
        assert any(error in text for text in raised), error
    assert all({"event", "level", "timestamp"} <= {*row} for row in rows)


@pytest.mark.parametrize("in_file", [True, False], ids=["file", "variable"])
def test_settings_that_are_not_valid_are_refused_in_json(home: Path, in_file: bool) -> None:
    log_section = '[log]\nformat = "json"\n' if in_file else ""
    (home / "sshwarma.toml").write_text(f"{log_section}[ssh]\nmax_pending = 0\n")
    environ = {} if in_file else {"SSHWARMA_LOG__FORMAT": "json"}
    with running(home, **environ) as server:
        (row,) = lines_of(server.process.communicate(timeout=SECONDS)[1])
    assert server.process.returncode == 2
    assert row["reason"] == "sshwarma.toml: ssh.max_pending: must be more than 0 (got 0)"


@pytest.mark.parametrize(
    ("code", "field", "text"),
    [
        ("", "reason", "Cannot listen on 127.0.0.1:"),
        (
            "import sshwarma.app\nasync def fail(*given):\n    raise ValueError('a bug')\n"
            "sshwarma.app.App.start = fail",
            "exception",
            "ValueError: a bug",
        ),
    ],
    ids=["refusal", "bug"],
)
def test_server_that_cannot_start_says_so_in_json(
    home: Path, code: str, field: str, text: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with running(home, listen=address, code=code, SSHWARMA_LOG__FORMAT="json") as server:
            rows = lines_of(server.process.communicate(timeout=SECONDS)[1])
            assert server.process.returncode == 1
    assert rows[-1]["level"] == "critical"
    assert text in rows[-1][field]


@pytest.mark.sqlite
def test_sigterm_ends_a_start_that_waits(serve: Callable[..., Server]) -> None:
    """Another process locks the database, for longer than a supervisor waits."""
    server = serve()
    server.stop()
    words = [str(forked_program()), "serve", "--data-dir", str(server.data_dir)]
    words += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with closing(sqlite3.connect(server.data_dir / "world.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: is_locked(server.data_dir / "sshwarma.lock"))
            process.terminate()
            _, log = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, log
    assert "stopped before it was ready" in log and "SIGTERM" in log
