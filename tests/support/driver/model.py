"""A model on the wire that says what a test sets: OpenAI's chat API, streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Asked = dict[str, Any]
"""The body of a request."""

Answer = Callable[[Asked], Iterator[str | dict[str, Any]]]
"""What to stream: texts, and tool calls as {"name": ..., "arguments": {...}}."""


class Model(ThreadingHTTPServer):
    """Answers as `answer` says; `asked` are the requests so far, in order."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        super().__init__(("127.0.0.1", 0), ModelHandler)
        self._thread = Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def settings(self, name: str) -> dict[str, str]:
        """An entry of `[[models]]`."""
        return {"name": name, "kind": "compatible", "model": "scripted", "base_url": self.url}

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of connections: a client that stops an answer hangs up."""


def question(asked: Asked) -> str:
    """What was asked last in a request, without what came before it."""
    content = next(m["content"] for m in reversed(asked["messages"]) if m["role"] == "user")
    text = content if isinstance(content, str) else content[-1]["text"]
    lines = str(text).rpartition(", to be answered now]\n")[2].split("\n")
    return "\n".join(line.removeprefix("  ") for line in lines)


def received(asked: Asked) -> str:
    """All of a request's messages as one text."""
    return json.dumps(asked["messages"], ensure_ascii=False)


class ModelHandler(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        calls = 0
        for part in self.server.answer(asked):
            if isinstance(part, str):
                self._send({"content": part})
                continue
            call = {"name": part["name"], "arguments": json.dumps(part.get("arguments", {}))}
            head = {"index": calls, "id": f"call_{calls}", "type": "function"}
            self._send({"tool_calls": [{**head, "function": call}]})
            calls += 1
        self._send({}, "tool_calls" if calls else "stop")
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        self._line({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, delta: dict[str, Any], why: str | None = None) -> None:
        delta = {"role": "assistant", **delta}
        self._line({"choices": [{"index": 0, "delta": delta, "finish_reason": why}]})

    def _line(self, body: dict[str, Any]) -> None:
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        self.wfile.write(f"data: {json.dumps({**chunk, **body})}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""
