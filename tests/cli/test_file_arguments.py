"""Files that a command is given: an empty name, and what is read without end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sshwarma.cli.main import main
from support.driver.server import PROGRAM

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPPvUwEYNBgMX0DV6HMSvqGuhr7rfUG5tVRV4GwrtDo"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    assert main(["init", "--data-dir", str(tmp_path / "data")]) == 0
    return tmp_path / "data"


@pytest.mark.parametrize(
    "words", [["backup", ""], ["restore", ""], ["keys", "add", "eve", ""], ["recover", "eve", ""]]
)
def test_empty_name_of_a_file_is_refused(
    data: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--data-dir", str(data)]) == 2
    assert "Invalid value for 'FILE': must not be empty." in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["restore", "FILE"], ["keys", "add", "eve", "FILE"], ["recover", "eve", "FILE"],
              ["init", "--owner", "eve", "--key", "FILE"]]
)  # fmt: skip
def test_fifo_is_not_waited_for(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    data = tmp_path / "new"
    if words[0] in ("keys", "recover"):
        assert main(["init", "--data-dir", str(data)]) == 0
    words = [str(fifo) if word == "FILE" else word for word in words]
    assert main([*words, "--data-dir", str(data)]) == 1
    assert f"{fifo} is a FIFO. Name a file, or - for standard input." in capsys.readouterr().err


def test_device_is_no_key(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "add", "eve", "/dev/zero", "--data-dir", str(data)]) == 1
    assert "/dev/zero is a device." in capsys.readouterr().err


@pytest.mark.process
def test_key_is_read_from_the_pipe_of_a_shell(data: Path) -> None:
    command = f'"$0" keys add eve <(echo "{KEY}") --data-dir {data}'
    done = subprocess.run(
        ["bash", "-c", command, str(PROGRAM)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout[:14]) == (0, "eve (member) m"), done.stderr
