"""Lanes: which tests start processes or servers, and the check that no others do."""

from __future__ import annotations

import sys
from typing import Any

import pytest

FOLDERS = ("mcp_client", "mcp_server", "models/wire", "screens", "wire")
"""Folders in which every test starts a process or a server."""

FIXTURES = frozenset(
    {
        *("bobs", "data_dir", "host", "hasty", "hubbed", "mock", "patient", "port", "serve"),
        *("served", "setting", "shared_server", "ssh", "tools", "web"),
    }
)
"""Fixtures that start one."""

STARTS = frozenset({"os.fork", "os.posix_spawn", "socket.bind", "subprocess.Popen"})
"""Audit events of Python that tell of a start."""

_started: list[str] = []


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS and arguments[0] != "uname":  # asked by platform, once in a process
        _started.append(f"{event}{arguments!r}"[:200])


def watch() -> None:
    """Note every process and server that this process starts from now on."""
    sys.addaudithook(_listen)


def assign(items: list[pytest.Item]) -> None:
    """Mark the tests `process` that stand in such a folder or use such a fixture."""
    for item in items:
        folder = item.path.parent.relative_to(item.config.rootpath / "tests").as_posix()
        if folder in FOLDERS or FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.process)


def started() -> list[str]:
    """Return what was started since the last call."""
    found = _started.copy()
    _started.clear()
    return found
