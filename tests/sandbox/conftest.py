"""A host of sandboxes, and a folder for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sshwarma.sandbox.host import SandboxHost
from support.sandboxes import ACCOUNTS


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[SandboxHost]:
    made = SandboxHost(ACCOUNTS, tmp_path, tmp_path / "devices")
    assert await made.check() is None
    yield made
    assert made.running == 0


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    path.mkdir()
    return path
