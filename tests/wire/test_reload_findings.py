"""A reload says what cannot work as it is set, and fails for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.driver import Server
from support.driver.fixtures import homes
from support.waiting import wait_until


def test_reload_with_parts_that_cannot_work_fails_and_names_doubtful_ones() -> None:
    with homes() as home:
        server = Server(home())
        script = server.home / "none.py"
        file = server.home / "sshwarma.toml"
        try:
            file.write_text(_make_settings(script, server.home))
            done = server.cli("reload")
            assert done.returncode == 0, "a file that a program makes itself may be meant"
            assert "These may not work:\n  mcp files: " in done.stdout
            assert f"whose argument {script} does not exist" in done.stdout
            wait_until(lambda: "these settings may not work" in server.log())
            file.write_text(_make_settings(script, server.home / "unmounted" / "disk"))
            broken = server.cli("reload")
            assert broken.returncode == 1
            assert "These cannot work:\n  backups: " in broken.stdout
            file.write_text("")
            assert server.cli("reload").returncode == 0
        finally:
            assert server.stop() == 0


def _make_settings(script: Path, backups: Path) -> str:
    command = json.dumps([sys.executable, str(script)])
    return (
        f'[backup]\nevery = "1d"\ndirectory = "{backups}/made"\n'
        f'[[mcp]]\nname = "files"\ncommand = {command}\n'
    )
