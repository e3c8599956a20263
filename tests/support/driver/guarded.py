"""An MCP server that needs a sign-in, in a process, and a browser to sign in."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PROGRAM = Path(__file__).parents[1] / "programs" / "guarded.py"
START_SECONDS = 40.0


class Guarded:
    """The server, and what it has seen."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._port = port

    def control(self, what: str) -> dict[str, Any]:
        """Do what `guarded.py` says of that word; what it has seen."""
        return dict(json.loads(_answer(self._port, "POST", f"/control/{what}")[1]))

    @property
    def seen(self) -> list[str]:
        return list(self.control("seen")["seen"])


def visit(url: str) -> str:
    """Open a page as a browser does whose owner agrees; where it leads."""
    parts = urlsplit(url)
    headers, _ = _answer(parts.port or 80, "GET", f"{parts.path}?{parts.query}")
    return headers["location"]


def load(url: str) -> str:
    """The text of a page."""
    parts = urlsplit(url)
    return _answer(parts.port or 80, "GET", f"{parts.path}?{parts.query}")[1].decode()


def _answer(port: int, method: str, path: str) -> tuple[dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@contextlib.contextmanager
def guarding(seconds: int = 3600) -> Iterator[Guarded]:
    """The server, from when it listens. Its tokens are valid for `seconds`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(port), str(seconds)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, "it ended"
            assert time.monotonic() < until, "it does not listen"
            time.sleep(0.02)
        yield Guarded(port)
    finally:
        process.kill()
        process.wait()
