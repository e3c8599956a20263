"""A real HAProxy with the configuration of `examples/haproxy`."""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.driver import Server
from support.free_ports import find_free_ports
from support.waiting import wait_until

PROGRAM: Final = shutil.which("haproxy") or shutil.which(
    "haproxy", path="/usr/sbin:/usr/local/sbin"
)
CONFIG: Final = Path(__file__).parents[2] / "examples" / "haproxy" / "haproxy.cfg"

needs_haproxy: Final = pytest.mark.skipif(
    PROGRAM is None, reason="needs haproxy (apt-get install haproxy)"
)


class CheckCounter(socketserver.ThreadingTCPServer):
    """A second node that gets checks alone, and counts them.

    HAProxy itself does not say how many it has made.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.count = 0
        super().__init__(("127.0.0.1", 0), CheckHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore that a check goes by a reset."""


class CheckHandler(socketserver.BaseRequestHandler):
    server: CheckCounter

    def handle(self) -> None:
        self.request.sendall(b"SSH-2.0-counter\r\n")
        self.request.recv(1000)
        self.server.count += 1


class Haproxy:
    """HAProxy in front of a server; `ssh` and `http` are its ports."""

    def __init__(self, home: Path, ssh: int, http: int, counter: CheckCounter) -> None:
        self.ssh, self.http = ssh, http
        self._stats = home / "haproxy.sock"
        self._counter = counter

    def status(self, backend: str) -> str:
        """The verdict of the checks of a backend's node, such as `UP` or `DOWN`."""
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as link:
            link.connect(str(self._stats))
            link.sendall(b"show stat\n")
            table = link.makefile().read().removeprefix("# ")
        rows = csv.DictReader(io.StringIO(table))
        return next(
            row["status"] for row in rows if (row["pxname"], row["svname"]) == (backend, "node1")
        )

    def wait_for(self, status: str) -> None:
        """Wait until the checks of ssh and of HTTP say so."""
        for backend in ("ssh_nodes", "web_nodes"):
            wait_until(lambda backend=backend: self.status(backend).startswith(status))

    def wait_for_checks(self, count: int) -> None:
        """Wait until each node has had some checks more."""
        until = self._counter.count + count
        wait_until(lambda: self._counter.count >= until)


@contextlib.contextmanager
def haproxy(server: Server, protocol: str = "send-proxy-v2") -> Iterator[Haproxy]:
    """Run HAProxy in front of a server, with a check every 100 ms."""
    ssh, http = find_free_ports(2)
    counter = CheckCounter()
    text = CONFIG.read_text("utf-8")
    changes = {
        "bind :22\n": f"bind 127.0.0.1:{ssh}\n",
        "bind :443 ssl crt /etc/haproxy/world.pem alpn http/1.1\n": f"bind 127.0.0.1:{http}\n",
        "10.0.0.11:2222": f"127.0.0.1:{server.port}",
        "10.0.0.11:2280": server.http,
        "    # server node2 10.0.0.12:2222\n":
            f"    server counter 127.0.0.1:{counter.server_address[1]} weight 0\n",
        "inter 2s": "inter 100ms",
        "send-proxy-v2": protocol,
        "    maxconn 10000\n": f"    stats socket {server.home / 'haproxy.sock'}\n",
    }  # fmt: skip
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    config = server.home / "haproxy.cfg"
    config.write_text(text)
    with subprocess.Popen([str(PROGRAM), "-db", "-f", str(config)]) as process:
        try:
            made = Haproxy(server.home, ssh, http, counter)
            wait_until(
                lambda: process.poll() is not None or (server.home / "haproxy.sock").exists()
            )
            assert process.poll() is None
            made.wait_for("UP")
            yield made
        finally:
            process.terminate()
            process.wait()
            counter.shutdown()
            counter.server_close()
