"""A client of `GET /api/v1/events`, as a program hears it."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from support.driver import Server

SECONDS = 60.0


class EventStream:
    """An open stream; `last_id` is the cursor of the last event that had one."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response
        self.last_id = ""

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield events until the stream ends."""
        for raw in self.response:
            line = raw.decode().rstrip("\n")
            if line.startswith("id: "):
                self.last_id = line.removeprefix("id: ")
            elif line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))

    def next(self, kind: str) -> dict[str, Any]:
        """Return the next event of a type."""
        return next(one for one in self.read() if one["type"] == kind)


@contextlib.contextmanager
def hearing(server: Server, token: str, last_id: str = "", **query: str) -> Iterator[EventStream]:
    """Open a stream, and pass its start."""
    host, _, port = server.http.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
    headers = {"Authorization": f"Bearer {token}"} | ({"Last-Event-ID": last_id} if last_id else {})
    connection.request("GET", f"/api/v1/events?{urlencode(query)}", headers=headers)
    response = connection.getresponse()
    try:
        assert response.status == 200, response.read()
        stream = EventStream(response)
        stream.next("start")
        yield stream
    finally:
        response.close()
        connection.close()
