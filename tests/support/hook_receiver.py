"""A server that hooks post to: it keeps what arrives, and answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.waiting import wait_until


@dataclass(frozen=True)
class Post:
    """What arrived, and with which status it was answered."""

    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def data(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    @property
    def id(self) -> str:
        """The id of the message."""
        return self.headers["webhook-id"]


class Receiver(ThreadingHTTPServer):
    """Answers with the `statuses`, one after another, then with 200."""

    daemon_threads = True

    def __init__(self, statuses: Iterable[int] = (), port: int = 0) -> None:
        self.posts: list[Post] = []
        self.statuses = list(statuses)
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}/events"

    @property
    def taken(self) -> list[Post]:
        """The posts that it took."""
        return [post for post in self.posts if post.status == 200]

    def wait_for(self, count: int) -> list[Post]:
        """Wait until it has taken `count` posts; return them."""
        wait_until(lambda: len(self.taken) >= count)
        return self.taken


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.posts.append(Post(headers, body, status))
        self.send_response(status)
        if status in (301, 302):
            self.send_header("Location", self.server.url + "/elsewhere")
        text = b"" if status == 200 else b"not\x1b[31m now"
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@contextmanager
def receiving(*statuses: int, port: int = 0) -> Iterator[Receiver]:
    """Run a receiver."""
    receiver = Receiver(statuses, port)
    thread = threading.Thread(target=receiver.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        thread.join()
        receiver.server_close()
