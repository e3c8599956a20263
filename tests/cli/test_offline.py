"""Worlds that a command opens without a server: what it logs meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import structlog
from structlog.testing import capture_logs

from sshwarma.cli.offline import open_offline
from sshwarma.settings import load_settings
from sshwarma.world.store_errors import FULL_DISK

log = structlog.get_logger(__name__)


async def test_only_what_the_answer_says_is_not_logged(newborn: Path, tmp_path: Path) -> None:
    """The log of the process is then as before."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    shutil.copyfile(newborn, data / "world.db")
    with capture_logs() as lines:
        before = structlog.get_config()
        async with open_offline(load_settings(data_dir=data)):
            log.error("the world cannot be written to", reason=FULL_DISK)
            log.error("an agent could not be read", error="x")
        log.error("the world cannot be written to", reason=FULL_DISK)
        assert structlog.get_config() == before
    events = [line["event"] for line in lines if line["log_level"] == "error"]
    assert events == ["an agent could not be read", "the world cannot be written to"]
