"""Servers by others, installed from npm and PyPI at their lock files' versions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from support.driver import aimock

HERE = Path(__file__).parents[2] / "mcp_client"
PROGRAMS = Path(__file__).parents[1] / "programs"
SCOPE = HERE / "node_modules" / "@modelcontextprotocol"
WHEELS = HERE / "node_modules" / ".python"
POISONED = (sys.executable, str(PROGRAMS / "poisoned.py"))

NODE = str(aimock.NODE)
SECONDS = 50


@cache
def from_npm(package: str) -> str:
    """The program of a package of @modelcontextprotocol, installed if missing."""
    wanted = json.loads((HERE / "package-lock.json").read_text())["packages"]
    version = wanted[f"node_modules/@modelcontextprotocol/{package}"]["version"]
    manifest = SCOPE / package / "package.json"
    if not manifest.exists() or json.loads(manifest.read_text())["version"] != version:
        aimock.npm_ci(HERE)
    return str(SCOPE / package / "dist" / "index.js")


@cache
def from_pypi(module: str) -> tuple[str, ...]:
    """The command of a Python server.

    It runs with the SDK that we have, beside what is pinned in servers.txt and installed where the
    environment does not see it.
    """
    pinned = (HERE / "servers.txt").read_text()
    mark = WHEELS / "servers.txt"
    if not mark.exists() or mark.read_text() != pinned:
        _run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check",
              "--no-deps", "--upgrade", "--target", str(WHEELS), "-r", "servers.txt"])  # fmt: skip
        mark.write_text(pinned)
    start = (
        f"import sys; sys.path.append({str(WHEELS)!r}); import runpy; sys.argv[0] = {module!r}; "
    )
    return (sys.executable, "-c", start + f"runpy.run_module({module!r}, run_name='__main__')")


def _run(words: Sequence[str]) -> None:
    done = subprocess.run(
        words, check=False, cwd=HERE, capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode:
        pytest.fail(f"`{' '.join(words)}` failed:\n{done.stderr[-2000:]}", pytrace=False)
