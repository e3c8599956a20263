"""The example of a systemd unit: systemd accepts it, and rates its exposure."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from sshwarma.cli.main import cli
from support.driver.server import PROGRAM
from support.systemd import INSTALLED, SANDBOX, UNIT

MAX_EXPOSURE = 3.0


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit is not checked")
    return subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, check=False, timeout=60
    )


def values(name: str) -> list[str]:
    """The values of a setting of the unit."""
    lines = UNIT.read_text("utf-8").split("\n")
    return [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]


@pytest.mark.process
def test_unit_is_valid(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text("utf-8").replace(INSTALLED, str(PROGRAM)))
    done = analyze("verify", str(copy))
    assert (done.returncode, done.stderr.strip()) == (0, "")


@pytest.mark.process
def test_exposure_of_the_unit_is_low() -> None:
    threshold = f"--threshold={round(MAX_EXPOSURE * 10)}"
    done = analyze("security", "--offline=yes", threshold, str(UNIT))
    assert done.returncode == 0, done.stdout[-400:]


@pytest.mark.process
def test_exposure_with_sandboxes_is_low(tmp_path: Path) -> None:
    more = SANDBOX.read_text("utf-8").partition("[Service]\n")[2]
    whole = tmp_path / UNIT.name
    whole.write_text(UNIT.read_text("utf-8").replace("[Install]", f"{more}\n[Install]"))
    threshold = f"--threshold={round(MAX_EXPOSURE * 10)}"
    done = analyze("security", "--offline=yes", threshold, str(whole))
    assert done.returncode == 0, done.stdout[-400:]


def test_commands_of_the_unit_exist() -> None:
    commands = [*values("ExecStartPre"), *values("ExecStart"), *values("ExecReload")]
    assert len(commands) == 3
    for command in commands:
        program, *words = shlex.split(command.removeprefix("-"))
        assert program == INSTALLED
        done = CliRunner().invoke(cli, [*words, "--help"])
        assert done.exit_code == 0, command


def test_failures_in_a_row_do_not_end_the_restarts() -> None:
    """By its defaults, systemd gives up after five starts within ten seconds."""
    assert values("Restart") == ["on-failure"]
    assert int(values("RestartSec")[0]) >= 2
    unit = UNIT.read_text("utf-8").partition("[Service]")[0]
    assert "\nStartLimitIntervalSec=0\n" in unit, "it is read in [Unit] alone"


def test_service_manager_is_used() -> None:
    assert values("Type") == ["notify"]
    assert int(values("WatchdogSec")[0]) > 0
    assert values("EnvironmentFile") == ["-/etc/sshwarma/environment"]
