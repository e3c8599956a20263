"""Wrong values of options: the exit status is 2, as for wrong words."""

from __future__ import annotations

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
