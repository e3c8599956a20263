"""A machine of its own with the unit of the examples, started by a real systemd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.driver.server import PROGRAM
from support.waiting import wait_until

SYSTEMD: Final = Path("/lib/systemd/systemd")
BOOT: Final = Path(__file__).parent / "programs" / "boot_systemd.sh"
TOP: Final = Path(__file__).parents[2]
UNIT: Final = TOP / "examples" / "sshwarma.service"
SANDBOX: Final = TOP / "examples" / "sshwarma-sandbox.conf"
INSTALLED: Final = "/opt/sshwarma/bin/sshwarma"
SECONDS: Final = 60

_SETTINGS: Final = """
[ssh]
listen = "127.0.0.1:0"
[http]
listen = "127.0.0.1:0"
"""

_TEST_CONF: Final = """
[Unit]
DefaultDependencies=no
After=
Wants=
[Service]
StandardOutput=append:{folder}/out
StandardError=append:{folder}/log
# The program is where the tests run, which may be below a home or /tmp.
ProtectHome=tmpfs
BindReadOnlyPaths={paths}
"""


class Machine:
    """A machine whose systemd runs the unit; `folder` has its files."""

    def __init__(self, folder: Path, *drop_ins: Path) -> None:
        self.folder = folder
        units = folder / "etc" / "systemd" / "system"
        more = units / "sshwarma.service.d"
        more.mkdir(parents=True)
        text = UNIT.read_text("utf-8")
        assert text.count(f"{INSTALLED} ") == 3
        (units / UNIT.name).write_text(text.replace(INSTALLED, str(PROGRAM)))
        for path in drop_ins:
            shutil.copy(path, more)
        paths = sorted({str(TOP), sys.prefix, sys.base_prefix})
        (more / "a-test.conf").write_text(_TEST_CONF.format(folder=folder, paths=" ".join(paths)))
        settings = folder / "etc" / "sshwarma"
        settings.mkdir()
        (settings / "sshwarma.toml").write_text(_SETTINGS)
        self._boot()
        self.port = self._read_port()

    def _boot(self) -> None:
        if os.geteuid() != 0 or not SYSTEMD.exists() or shutil.which("unshare") is None:
            pytest.skip("needs root and systemd: apt-get install systemd")
        with (self.folder / "console").open("wb") as console:
            self._process = subprocess.Popen(
                ["unshare", "--fork", "--pid", "--mount", "--uts", "--ipc", "--cgroup",
                 "--kill-child", "bash", str(BOOT), str(self.folder), UNIT.name],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console,
            )  # fmt: skip
        wait_until(lambda: "ready " in self.read("out") or self._process.poll() is not None)
        if self._process.poll() is not None:
            pytest.skip(f"no machine can be made here: {self.read('console')[-200:]}")

    def read(self, name: str) -> str:
        """Return a file of the folder; empty if it does not exist."""
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def _read_port(self) -> str:
        ready = next(line for line in self.read("out").splitlines() if line.startswith("ready "))
        return ready.split()[1].rpartition(":")[2]

    def ssh(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command over ssh as the first owner."""
        return subprocess.run(
            ["ssh", "-T", "-i", str(self.folder / "lib" / "sshwarma" / "operator_ed25519"),
             "-p", self.port, "-o", "StrictHostKeyChecking=no",
             "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "127.0.0.1", command],
            capture_output=True, text=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run systemctl in the machine."""
        first = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return subprocess.run(
            ["nsenter", "--target", first.strip(), "--mount", "--pid", "systemctl", *words],
            capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip

    def end(self) -> None:
        """End the machine with all that runs in it."""
        self._process.kill()
        self._process.wait()
