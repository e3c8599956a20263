"""An MCP server over HTTP without the SDK, whose path says what is odd about it."""

from __future__ import annotations

import contextlib
import gzip
import json
import queue
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DEEP_SCHEMA: Any = {"type": "object", "x": json.loads('{"x":' * 200 + "1" + "}" * 200)}


class Web(ThreadingHTTPServer):
    """The server, of the older protocol; what it was asked is in `seen`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.pings = 0
        self.events: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        super().__init__(("127.0.0.1", 0), WebHandler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class WebHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Web

    def do_GET(self) -> None:
        self.server.seen.append(("GET", self.path, dict(self.headers)))
        if self.path == "/deep-sse":
            return self._stream()
        return self._send(405, b"")

    do_DELETE = do_GET  # noqa: N815 - the name is the interface's

    def do_POST(self) -> None:
        self.server.seen.append(("POST", self.path, dict(self.headers)))
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        match self.path:
            case "/bad-gateway":
                return self._send(502, b"<html>\x1b[31mBad gateway</html>", "text/html")
            case "/locked":
                return self._send(401, b"")
            case "/away":
                return self._send(307, b"", location="http://localhost:9/mcp")
            case "/zipped":
                body = gzip.compress(json.dumps(self._answer(asked)).encode())
                return self._send(200, body, encoding="gzip")
        if "id" not in asked:
            return self._send(202, b"")
        if asked["method"] == "tools/call" and self.path == "/huge":
            return self._huge()
        if asked["method"] == "tools/call" and self.path == "/cut":
            self._head(200, "text/event-stream", 1_000)
            self.wfile.write(b"event: message\r\ndata: {")
            self.close_connection = True
            return None
        body = json.dumps(self._answer(asked)).encode()
        if self.path == "/deep-sse":
            self.server.events.put(body)
            return self._send(202, b"")
        if self.path == "/deep-events":
            return self._send(200, b"data: " + body + b"\r\n\r\n", "text/event-stream")
        return self._send(200, body)

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "web", "version": "1"}},
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "hello"}]},
            "ping": {},
        }  # fmt: skip
        if self.path.startswith("/deep"):
            results["tools/list"]["tools"].insert(0, {"name": "pit", "inputSchema": DEEP_SCHEMA})
            results["tools/call"]["structuredContent"] = DEEP_SCHEMA
        answer = {"jsonrpc": "2.0", "id": asked.get("id")}
        if asked["method"] == "ping" and self.path == "/no-ping":
            self.server.pings += 1
        elif asked["method"] in results:
            return answer | {"result": results[asked["method"]]}
        return answer | {"error": {"code": -32601, "message": "no such method"}}

    def _stream(self) -> None:
        """Send events of the oldest transport, in one response without an end."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.close_connection = True
        event = b"event: endpoint\ndata: /deep-sse\n\n"
        with contextlib.suppress(OSError, queue.Empty):
            while True:
                self.wfile.write(event)
                event = b"event: message\ndata: " + self.server.events.get(timeout=30) + b"\n\n"

    def _huge(self) -> None:
        self._head(200, "application/json", 50_000_000)
        with contextlib.suppress(OSError):
            for _ in range(50):
                self.wfile.write(b"x" * 1_000_000)

    def _send(self, status: int, body: bytes, kind: str = "application/json", **more: str) -> None:
        self._head(status, kind, len(body), **more)
        self.wfile.write(body)

    def _head(
        self, status: int, kind: str, length: int, *, encoding: str = "", location: str = ""
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        if encoding:
            self.send_header("Content-Encoding", encoding)
        if location:
            self.send_header("Location", location)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing: what was asked is in `seen`."""
