"""Wrong values of options: the exit status is 2, as for wrong words."""

from __future__ import annotations

from pathlib import Path

import pytest

from sshwarma.cli.main import main
from sshwarma.common.exit_status import EXIT_USAGE


@pytest.mark.parametrize(
    "line",
    ["invite --hours -1", "keys add ann - --days 0", "token new ann --label ci --days -2"],
)
def test_time_outside_of_its_limits_is_wrong_usage(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == EXIT_USAGE
    assert "is not in the range 0<x<=" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "said"), [
    ("no.toml", "settings file not found: {}"), (".", "{} is a directory. Name a file"),
])  # fmt: skip
def test_settings_file_that_cannot_be_read_is_wrong_usage(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    with pytest.raises(SystemExit) as caught:
        main(["keys", "list", "--config", str(path)])
    assert caught.value.code == EXIT_USAGE
    assert capsys.readouterr().err == f"sshwarma: invalid settings:\n  {said.format(path)}\n"
