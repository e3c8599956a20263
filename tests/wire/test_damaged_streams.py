"""Damaged streams of a provider, as people in the room see them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final, cast

import pytest

from support.driver import Server
from support.http_server import serving

CHUNK: Final = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
CHOICE: Final = {"index": 0, "delta": {"content": "Hello "}, "finish_reason": None}
CHAT: Final = b"data: " + json.dumps(CHUNK | {"choices": [CHOICE]}).encode() + b"\n\n"
MESSAGE: Final = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": []}
BLOCK: Final = {"type": "text", "text": ""}
ANTHROPIC: Final = b"".join(
    b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode())
    for event in cast(
        "list[dict[str, Any]]",
        [
            {"type": "message_start", "message": MESSAGE | {"usage": {"input_tokens": 5}}},
            {"type": "content_block_start", "index": 0, "content_block": BLOCK},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "Hello "},
            },
        ],
    )
)
BROKEN: Final = {
    "/openai/chat/completions": CHAT + b"data: [1]\n\n",
    "/anthropic/v1/messages": ANTHROPIC + b"event: content_block_delta\ndata: {bro\n\n",
    "/page/chat/completions": b"<html><body>Please sign in</body></html>",
}


class Provider(BaseHTTPRequestHandler):
    """Answers each path with its broken body."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = BROKEN[self.path.partition("?")[0]]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def provider() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Provider)
    with serving(server):
        yield f"http://127.0.0.1:{server.server_port}"


def test_damaged_stream_ends_with_one_sentence_in_the_room(
    serve: Callable[..., Server], provider: str
) -> None:
    server = serve(environ={"ANTHROPIC_API_KEY": "sk-ant-0123456789"})
    boss = server.owner
    boss.does(
        f"model add chat compatible m --url {provider}/openai",
        f"model add claude anthropic m --url {provider}/anthropic",
        f"model add page compatible m --url {provider}/page",
    )
    damaged = "the stream of its provider is damaged:"
    for name, sentence in (
        ("chat", f"could not finish: {damaged} an event is an array, not a JSON object"),
        ("claude", f"could not finish: {damaged} an event is not valid JSON: Expecting"),
        ("page", f"could not answer: {damaged} it sent HTML instead of events"),
    ):
        boss.run(f"@{name} hello")
        rows = boss.json("history 2")["entries"]
        assert rows[-1]["text"].startswith(sentence)
        assert (rows[0]["who"], rows[0]["text"].startswith("Hello")) == (
            (name, True) if name != "page" else (boss.name, False)
        )
    assert "cut" in json.dumps(boss.json("wrap @chat"))
    boss.hang_up()
    assert "Traceback" not in server.log()
