"""What a log shows of an error: the traceback, and no value of a variable."""

from __future__ import annotations

import pytest
import structlog

from sshwarma.settings import LogSettings
from sshwarma.settings.logs import configure_logging


@pytest.mark.parametrize("form", ["console", "json"])
def test_log_of_an_error_shows_no_local_variables(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogSettings.model_validate({"format": form}))
    password = "swordfish"
    try:
        raise ValueError(f"{len(password)} characters")
    except ValueError:
        structlog.get_logger().exception("login.failed")
    logged = capsys.readouterr().err
    assert "login.failed" in logged and "ValueError: 9 characters" in logged
    assert "test_log_of_an_error_shows_no_local_variables" in logged  # the frame is named
    assert "password =" not in logged and "'swordfish'" not in logged


def test_text_log_shows_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LogSettings(format="console"))
    log = structlog.get_logger()
    log.warning("failed", name="\x1b]0;PWN\x07\x9b31m\u202e", other="plain")
    log.warning("failed", name="a\nb")
    first, second = capsys.readouterr().err.splitlines()
    assert first.isprintable() and "other=plain" in first
    assert r"name=\x1b]0;PWN\x07\x9b31m\u202e" in first
    assert second.endswith(r"name=a\nb")
