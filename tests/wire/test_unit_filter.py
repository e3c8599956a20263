"""The program under the system-call filter of its systemd unit."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver import Server
from support.driver.fixtures import homes
from support.driver.installed import POISONED
from support.driver.server import PROGRAM
from support.programs import filtered
from support.sandboxes import needs_filters

pytestmark = [pytest.mark.soak, needs_filters]

UNIT = Path(__file__).parents[2] / "examples" / "sshwarma.service"


def expand(name: str) -> set[str]:
    """The system calls of a set of systemd, such as @system-service."""
    if not name.startswith("@"):
        return {name}
    done = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", name],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = [line.strip() for line in done.stdout.split("\n")[1:]]
    return {call for one in names if one and not one.startswith("#") for call in expand(one)}


def read_filter() -> set[str]:
    """The system calls that the unit allows."""
    allowed = expand("@default")
    for line in UNIT.read_text("utf-8").split("\n"):
        name, _, value = line.partition("=")
        if name == "SystemCallFilter" and value.startswith("~"):
            allowed -= expand(value[1:])
        elif name == "SystemCallFilter":
            allowed |= expand(value)
    return allowed


class FilteredServer(Server):
    """A server whose process, with all that it starts, has the filter of the unit."""

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self.process: Any = subprocess.Popen(
                [sys.executable, filtered.__file__, ",".join(sorted(read_filter())), str(PROGRAM),
                 "serve", "--data-dir", str(self.data_dir), "--listen", "127.0.0.1:0",
                 "--http", "127.0.0.1:0"],
                env=self.environ, cwd=self.home, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        ssh, http = (part.partition("=")[2] for part in self._ready().split()[1:])
        self.host, _, port = ssh.rpartition(":")
        self.port, self.http = int(port), http


@pytest.fixture
def server() -> Iterator[FilteredServer]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: it knows the sets of system calls")
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not installed: no filter can be made")
    with homes() as make:
        made = FilteredServer(make())
        yield made
        assert made.stop() == 0


def test_filter_refuses_what_a_server_does_not_need(server: FilteredServer) -> None:
    code = "import os; os.chroot('/')"
    done = subprocess.run(
        [sys.executable, filtered.__file__, ",".join(sorted(read_filter())), sys.executable,
         "-c", code], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "PermissionError: [Errno 1]" in done.stderr


def test_everything_that_starts_processes_works(server: FilteredServer) -> None:
    """Lua, a report, an MCP server that is a program, and the writer of the database."""
    owner = server.owner
    owner.does("say hello", "tool new four = return 2 + 2")
    assert "4" in owner.run("run four").out
    assert "42" in owner.run("sql select 6 * 7 as answer").out
    command = " ".join(POISONED)
    owner.does(f"mcp add evil -- {command}")
    servers = owner.json("mcp list")["servers"]
    assert [one["state"] for one in servers] == ["up"], servers
    assert json.loads(owner.run("look --json").out)["name"] == "lobby"
    assert "[error" not in server.log()
