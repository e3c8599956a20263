"""The commands of docs/operating.md, as far as they need no systemd."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.driver import Server
from support.driver.fixtures import homes
from support.driver.server import PROGRAM

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "operating.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

NEEDS_MORE = re.compile(
    r"^(?:systemctl|podman|pipx|useradd|python3 -m|/opt/sshwarma/bin/pip|sshwarma\(\))",
    re.MULTILINE,
)
"""Commands that need systemd, a container program, other users, or a package index.

tests/test_container.py runs the steps of the Containerfile, which are those of the wheel.
"""

RUNNABLE = [block for block in BLOCKS if not NEEDS_MORE.search(block)]
SSH = (
    "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
)


@pytest.fixture
def server() -> Iterator[Server]:
    with homes() as make:
        made = Server(make(), registration__mode="invite")
        yield made
        assert made.stop() == 0


def test_commands_of_the_page_do_what_it_says(server: Server) -> None:
    """They run one after another, on a server in the place of the service."""
    alice = server.stranger("alice")
    (server.home / "alice.pub").write_text(f"{alice.public_key}\n")
    (server.home / "bob.pub").write_text(f"{server.stranger('bob').public_key}\n")
    (server.home / "sshwarma.toml").write_text('motd = "Tea is at four."\n')
    program = server.home / "bin" / "sshwarma"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nSSHWARMA_DATA_DIR="{server.data_dir}" exec "{PROGRAM}" "$@"\n')
    program.chmod(0o700)
    printed = ""
    for block in RUNNABLE:
        text = block.replace("/etc/sshwarma/", f"{server.home}/")
        text = text.replace("127.0.0.1:2280", server.http)
        text = text.replace("ssh -p 2222", f"{SSH} -i {alice.identity} -p {server.port}")
        done = subprocess.run(
            ["sh", "-e"], input=text, capture_output=True, text=True, check=False, timeout=60,
            cwd=server.home,
            env={"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(server.home)},
        )  # fmt: skip
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        printed += done.stdout
    assert "alice (owner) may log in with SHA256:" in printed
    assert "\nlobby\n" in printed
    assert "bob is now called robert." in printed
    assert 'Reloaded.\n  motd: "" -> "Tea is at four."' in printed
    assert '"status":"ok"' in printed
    assert "alice is an owner and may log in" in printed
    assert "Wrote world.tar.gz: " in printed
    assert (server.home / "elsewhere" / "world.db").stat().st_mode & 0o077 == 0


def test_page_has_blocks_of_both_kinds() -> None:
    assert len(RUNNABLE) >= 4
    assert len(BLOCKS) - len(RUNNABLE) >= 4


def test_files_that_are_installed_exist() -> None:
    installed = re.findall(r"^install -m \d+ (examples/\S+)", PAGE, re.MULTILINE)
    assert len(installed) == 2
    assert not [name for name in installed if not (TOP / name).exists()]
