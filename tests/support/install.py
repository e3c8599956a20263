"""Installs programs by others that tests run, at their lock files' versions.

`make test` does this first: a test that had to would have a minute for it, and a slow network may
need longer. Without it they are installed by the first test that needs them.
"""

from __future__ import annotations

from support import node
from support.driver import aimock, installed

PATIENCE = 600


def main() -> None:
    aimock.INSTALL_SECONDS = installed.SECONDS = PATIENCE
    aimock.installed()
    installed.from_npm("server-everything")
    installed.from_pypi("mcp_server_time")
    node.installed("@modelcontextprotocol/inspector")


if __name__ == "__main__":
    main()
