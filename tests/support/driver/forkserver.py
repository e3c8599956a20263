"""Servers forked from a process that has imported the program.

Its imports are most of the CPU time of a start, and the suite starts some eighty servers. What runs
after the fork is the command itself, `sshwarma.cli.main`, with the environment, directory and
standard streams of a command that was just started. Tests of starting run the real command.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

MAX_MESSAGE_BYTES = 1 << 20
DUMP_SIGNAL = signal.SIGUSR2

AT_START = (
    "sshwarma.admin.running_worlds",
    "sshwarma.app",
    "sshwarma.cli.server_process",
    "sshwarma.settings.logs",
    "uvicorn.lifespan.off",
    "uvloop",
)
AT_FIRST_USE = (
    "pydantic_ai.direct",
    "pydantic_ai.models.openai",
    "sshwarma.mcp.client.sdk.dial",
    "sshwarma.mcp.server.endpoint",
)


class ForkedProcess:
    """A process of the fork server, with the used part of `subprocess.Popen`."""

    def __init__(self, pid: int, status: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._read_status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status.

        Raises:
            subprocess.TimeoutExpired: if it still runs after `timeout` seconds.
        """
        status = self._read_status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(["sshwarma"], timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def dump(self) -> None:
        """Ask it to write what it is doing on stderr."""
        self.send_signal(DUMP_SIGNAL)

    def describe(self) -> str:
        """Return its state, signals and threads; empty if it has ended."""
        folder = Path(f"/proc/{self.pid}")
        lines = []
        try:
            for line in (folder / "status").read_text().splitlines():
                if line.startswith(("State", "PPid", "Threads", "Sig", "Shd")):
                    lines.append(line)
            for task in sorted((folder / "task").iterdir()):
                name, waits = ((task / part).read_text().strip() for part in ("comm", "wchan"))
                lines.append(f"thread {task.name} {name}: {waits}")
        except OSError:
            return ""
        return "\n".join(lines)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _read_status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            answer = os.read(self._status, 64)
            os.close(self._status)
            assert answer, "the fork server has ended"
            self.returncode = int(answer)
        return self.returncode


class ForkServer:
    """The process that forks; it ends with the one that started it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=dict(environ),
            )

    def stop(self) -> None:
        """End it. What it started goes on."""
        self._link.close()
        self._process.wait()

    def start(
        self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, stderr: IO[bytes]
    ) -> ForkedProcess:
        """Run the command with these words."""
        out, their_out = os.pipe()
        status, their_status = os.pipe()
        try:
            request = json.dumps({"words": list(words), "env": dict(env), "cwd": str(cwd)})
            fds = [their_out, stderr.fileno(), their_status]
            socket.send_fds(self._link, [request.encode()], fds)
            pid = int(self._link.recv(64))
        finally:
            os.close(their_out)
            os.close(their_status)
        return ForkedProcess(pid, status, os.fdopen(out, "rb", buffering=0))


def preload() -> Callable[[], NoReturn]:
    """Import what servers import until ready and at first uses; return the command.

    First uses are the first turn of a model, the first MCP server and the first MCP client.

    The command line imports a subcommand's modules when it runs: importing the command alone leaves
    them to each child. Tests of loading at the first use have processes of their own.
    """
    for name in (*AT_START, *AT_FIRST_USE):
        importlib.import_module(name)
    from sshwarma.cli.main import program
    from sshwarma.verbs.registry import tool_specs

    tool_specs()  # half of what is left of a start; each verb keeps its schema
    return program


def _serve(link: socket.socket) -> None:
    """Fork for each request; report each end on the pipe that came with it."""
    import gc
    import random

    program = preload()
    gc.collect()
    gc.freeze()
    wake, wake_up = os.pipe()
    os.set_blocking(wake_up, False)
    signal.set_wakeup_fd(wake_up)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([link.fileno(), wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            _report_ends(running)
        if link.fileno() not in ready:
            continue
        message, fds, _, _ = socket.recv_fds(link, MAX_MESSAGE_BYTES, 3)
        if not message:
            return
        request: dict[str, Any] = json.loads(message)
        out, err, status = fds
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (link.fileno(), wake, wake_up, status, *running.values()):
                os.close(fd)
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.close(out)
            os.close(err)
            os.chdir(request["cwd"])
            os.environ.clear()
            os.environ.update(request["env"])
            sys.argv = ["sshwarma", *request["words"]]
            random.seed()
            _dump_on_signal()
            program()
        os.close(out)
        os.close(err)
        running[pid] = status
        link.send(str(pid).encode())


def _dump_on_signal() -> None:
    """Write what all threads and tasks are doing on stderr at DUMP_SIGNAL."""
    import asyncio
    import faulthandler

    def dump_tasks(*_: object) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        for task in asyncio.all_tasks(loop):
            task.print_stack()

    signal.signal(DUMP_SIGNAL, dump_tasks)
    faulthandler.register(DUMP_SIGNAL, chain=True)


def _report_ends(running: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            status = running.pop(pid)
            os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
            os.close(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
