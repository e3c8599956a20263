"""A client of the HTTP API, with the token of an agent."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from support.driver import Server

SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """An answer; the names of its headers are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass
class Api:
    """The API for the holder of a token; in a room, unless that is empty."""

    server: Server
    token: str
    room: str = ""

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        kind: str = "application/json",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a GET, or with a body a POST."""
        words = ({"room": self.room} if self.room else {}) | dict(query or {})
        request = urllib.request.Request(
            f"http://{self.server.http}/api/v1/{path}?{urlencode(words)}", body,
            {"Authorization": f"Bearer {self.token}", "Content-Type": kind, **(headers or {})},
        )  # fmt: skip
        try:
            answer = urllib.request.urlopen(request, timeout=SECONDS)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.status, headers, answer.read())

    def get(self, path: str, /, **query: str) -> Any:
        """Return the result of a GET that is answered."""
        answer = self.ask(path, query=query)
        assert answer.status == 200, answer.body
        return answer.data["result"]

    def post(self, path: str, /, **arguments: object) -> tuple[int, Any]:
        """Send arguments; return the status and the answer."""
        answer = self.ask(path, json.dumps(arguments).encode())
        return answer.status, answer.data

    def run(self, verb: str, /, **arguments: object) -> tuple[int, Any]:
        """Run a verb; return the status and the answer."""
        return self.post(f"verbs/{verb}", **arguments)


def post_mcp(server: Server, token: str, host: str = "") -> int:
    """Send the first request of an MCP client; return the status of the answer.

    `host` is the name in its header `Host`, in place of the address of the server.
    """
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}}  # fmt: skip
    request = urllib.request.Request(
        f"http://{server.http}/mcp", json.dumps(hello).encode(),
        {"Host": host or server.http, "Authorization": f"Bearer {token}",
         "Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
    )  # fmt: skip
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
