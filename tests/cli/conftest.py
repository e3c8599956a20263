"""Servers of other tests run beside these: commands that look for one find none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sshwarma.admin import running_worlds


@pytest.fixture(autouse=True)
def no_running_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel's table of sockets be a file that a test may write."""
    monkeypatch.setattr(running_worlds, "SOCKETS", tmp_path / "no-servers")
