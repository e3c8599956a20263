"""Sandboxes for tests, where bubblewrap is installed."""

from __future__ import annotations

import shutil
from typing import Final

import pytest

from sshwarma.world.resources import resource_dir

ACCOUNTS: Final = resource_dir("embedded") / "sandbox"

needs_bubblewrap: Final = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap"
)
