"""What the log says of settings that open a server to a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sshwarma.admin import reload
from sshwarma.admin.exposure import log_exposure
from sshwarma.app import App
from sshwarma.settings import SettingsSource, load_settings

REGISTER = "anyone who reaches the server may register"
PLAIN = "http has no TLS: tokens cross the network in plain text"
EVERYWHERE = {"listen": "0.0.0.0:0"}
OPEN = {"mode": "open"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, []),
        ({"registration": OPEN}, []),
        ({"ssh": EVERYWHERE}, []),
        ({"ssh": EVERYWHERE, "registration": OPEN}, [("warning", REGISTER)]),
        ({"ssh": EVERYWHERE, "registration": {**OPEN, "role": "admin"}}, [("error", REGISTER)]),
        ({"http": EVERYWHERE}, [("warning", PLAIN)]),
        ({"http": {**EVERYWHERE, "public_url": "https://world.example.org"}}, []),
    ],
)
def test_open_doors_are_logged(given: dict[str, Any], said: list[tuple[str, str]]) -> None:
    with capture_logs() as logs:
        log_exposure(load_settings(**given))
    assert [(line["log_level"], line["event"]) for line in logs] == said


@pytest.mark.process
async def test_start_and_reload_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check takes an address of this machine alone for one of a network."""
    monkeypatch.setattr("sshwarma.admin.exposure.is_loopback", lambda host: False)
    monkeypatch.setattr(reload, "configure_logging", lambda settings: None)
    flags = {"data_dir": tmp_path / "data", "ssh": {"listen": "127.0.0.1:0"}}
    source = SettingsSource(flags={**flags, "http": {"listen": "127.0.0.1:0"}})
    with capture_logs() as logs:
        app = await App.start(source.load(), source)
        try:
            assert [line["event"] for line in logs].count(PLAIN) == 1
            await app.reload()
            assert [line["event"] for line in logs].count(PLAIN) == 2
        finally:
            await app.stop()
