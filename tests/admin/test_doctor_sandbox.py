"""The doctor on sandboxes: they hold, or the reason and what to install."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sshwarma.admin import doctor_sandbox
from sshwarma.sandbox import bubblewrap
from support.sandboxes import needs_bubblewrap


@pytest.mark.process
@needs_bubblewrap
def test_sandbox_is_tried_and_root_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: real or 1000)
    found = doctor_sandbox.check_sandbox(tmp_path)
    if real:
        assert (found.ok, found.is_warning) == (True, False)
        return
    # The check itself finds what a program could do to the machine with devices of root.
    assert "changes the mode of /dev/null" in found.detail
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = doctor_sandbox.check_sandbox(tmp_path)
    assert (found.ok, found.remedy) == (True, "run the server as another user")
    assert "without capabilities" in found.detail
    assert not list(tmp_path.iterdir())


def test_missing_bubblewrap_is_a_warning_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "_DIRECTORIES", ())
    found = doctor_sandbox.check_sandbox(tmp_path)
    assert (found.ok, found.is_warning) == (True, True)
    assert found.detail == "no command can be run: bubblewrap is not installed"
    assert found.remedy == "install the package bubblewrap of your system"
