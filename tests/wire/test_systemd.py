"""The unit of the examples under a real systemd, with and without sandboxes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.driver.fixtures import homes
from support.driver.server import PROGRAM
from support.sandboxes import needs_bubblewrap, needs_filters
from support.systemd import SANDBOX, SECONDS, Machine
from support.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.soak, needs_filters]


@contextmanager
def machine(*drop_ins: Path) -> Iterator[Machine]:
    with homes() as make:
        made = Machine(make(), *drop_ins)
        try:
            yield made
        finally:
            made.end()


def test_unit_starts_reloads_and_stops_the_server() -> None:
    with machine() as made:
        assert made.ssh("look").stdout.startswith("lobby\n")
        assert made.systemctl("is-active", "sshwarma").stdout == "active\n"
        assert made.systemctl("reload", "sshwarma").returncode == 0, made.read("out")
        assert "Reloaded; nothing changed." in made.read("out")
        refused = made.ssh("shell true")
        assert "the system or the container allows no user namespaces" in refused.stderr
        assert "The operator can add examples/sshwarma-sandbox.conf" in refused.stderr
        assert made.systemctl("stop", "sshwarma").returncode == 0
        assert "stopped" in made.read("log")


def test_drained_server_is_started_again() -> None:
    with machine() as made:
        data_dir = made.folder / "lib" / "sshwarma"
        command = [str(PROGRAM), "drain", "--data-dir", str(data_dir)]
        drained = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        assert drained.returncode == 0, drained.stderr
        wait_until(lambda: made.read("out").count("ready ") == 2, SECONDS)
        assert made.systemctl("is-active", "sshwarma").stdout == "active\n"


@needs_bubblewrap
def test_drop_in_lets_the_server_make_sandboxes() -> None:
    with machine(SANDBOX) as made:
        assert made.ssh("create den").returncode == 0
        done = made.ssh("shell id -un; ls /var/lib /root 2>&1; touch made")
        assert "tool\n" in done.stdout and "exit status 0" in done.stdout, done
        assert "world.db" not in done.stdout
        wait_until(lambda: "made" in made.ssh("files").stdout)
        assert "ok    sandbox" in made.read("out")
