"""Servers and commands forked from a process that has imported the program.

Imports are most of the CPU time of a start, and the suite starts hundreds of them. What runs after
the fork is the command itself, `sshwarma.cli.main`, with the environment, directory and standard
streams of a command that was just started. Tests of starting run the real command.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

MAX_MESSAGE_BYTES = 1 << 20
DUMP_SIGNAL = signal.SIGUSR2

SETUP = "FORK_SETUP"
"""A variable with code that a command runs before its work, such as a change of a constant."""

COMMAND = """#!{python} -IS
import os, signal, socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect({address!r})
mask = os.umask(0)
request = repr([sys.argv[1:], dict(os.environ), os.getcwd(), mask])
socket.send_fds(link, [request.encode()], [0, 1, 2])
pid = int(link.recv(64))
for fd in (0, 1):
    os.close(fd)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
    signal.signal(number, lambda number, _: os.kill(pid, number))
status = int(link.recv(64) or 70)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""
"""A program that has the fork server run the command in its place, and ends as that ends.

Signals that end a program are passed on. One that cannot be passed on ends both: the fork server
kills the command of a program that is gone.
"""

AT_START = (
    "sshwarma.admin.running_worlds",
    "sshwarma.app",
    "sshwarma.cli.server_process",
    "sshwarma.common.library_search",
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
    """The process that forks; it ends with the one that started it.

    `program` is the path of a program that runs the command.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sshw-")
        address = f"{self._folder.name}/socket"
        self.program = Path(self._folder.name, "sshwarma")
        self.program.write_text(COMMAND.format(python=sys.executable, address=address))
        self.program.chmod(0o700)
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        commands = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        commands.bind(address)
        commands.listen()
        with theirs, commands:
            fds = [theirs.fileno(), commands.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, __file__, *map(str, fds)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                env=dict(environ),
            )

    def stop(self) -> None:
        """End it. What it started goes on."""
        self._link.close()
        self._process.wait()
        self._folder.cleanup()

    def start(
        self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, stderr: IO[bytes]
    ) -> ForkedProcess:
        """Run the command with these words."""
        out, their_out = os.pipe()
        status, their_status = os.pipe()
        try:
            request = repr([list(words), dict(env), str(cwd), None])
            with Path(os.devnull).open("rb") as nothing:
                fds = [nothing.fileno(), their_out, stderr.fileno(), their_status]
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
    for name in (*AT_START, *AT_FIRST_USE, *_modules_of_commands()):
        importlib.import_module(name)
    from sshwarma.cli.main import program
    from sshwarma.verbs.registry import tool_specs

    tool_specs()  # half of what is left of a start; each verb keeps its schema
    return program


def _modules_of_commands() -> list[str]:
    import sshwarma.admin
    import sshwarma.cli

    return [
        f"{package.__name__}.{module.name}"
        for package in (sshwarma.admin, sshwarma.cli)
        for module in pkgutil.iter_modules(package.__path__)
        if module.name != "__main__"
    ]


def _serve(link: socket.socket, commands: socket.socket) -> None:
    """Fork for each request; report each end on the descriptor that it came with."""
    import gc
    import random

    program = preload()
    gc.collect()
    gc.freeze()
    wake, wake_up = os.pipe()
    os.set_blocking(wake_up, False)
    signal.set_wakeup_fd(wake_up)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    reports: dict[int, int] = {}
    callers: dict[int, int] = {}
    ours = (link.fileno(), commands.fileno(), wake)
    while True:
        ready = select.select([*ours, *callers], [], [])[0]
        if wake in ready:
            os.read(wake, 4096)
            for ended in _report_ends(reports):
                callers = {caller: pid for caller, pid in callers.items() if pid != ended}
        for gone in [caller for caller in callers if caller in ready]:
            os.kill(callers.pop(gone), signal.SIGKILL)
        if commands.fileno() in ready:
            source, _ = commands.accept()
        elif link.fileno() in ready:
            source = link
        else:
            continue
        message, fds, _, _ = socket.recv_fds(source, MAX_MESSAGE_BYTES, 4)
        if not message and source is link:
            return
        if not message:
            source.close()
            continue
        report = source.fileno() if source is not link else fds.pop()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for fd in (*ours, wake_up, report, *reports.values()):
                os.close(fd)
            source.detach()
            _become(message, fds)
            random.seed()
            _dump_on_signal()
            program()
        for fd in fds:
            os.close(fd)
        reports[pid] = report
        with contextlib.suppress(BrokenPipeError):
            source.send(str(pid).encode())
        if source is not link:
            callers[source.detach()] = pid


def _become(message: bytes, fds: list[int]) -> None:
    """Take the words, environment, directory, mask and standard streams of a request."""
    words, env, cwd, mask = ast.literal_eval(message.decode())
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(cwd)
    if mask is not None:
        os.umask(mask)
    setup = env.pop(SETUP, "")
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["sshwarma", *words]
    exec(setup, {})


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


def _report_ends(reports: dict[int, int]) -> list[int]:
    """Report the ends of processes; return those."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended.append(pid)
            report = reports.pop(pid)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                os.write(report, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(report)
    return ended


if __name__ == "__main__":
    _serve(*(socket.socket(fileno=int(word)) for word in sys.argv[1:]))
