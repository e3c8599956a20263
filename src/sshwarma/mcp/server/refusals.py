"""Refusals over HTTP as JSON-RPC errors of one sentence, without the SDK."""

from __future__ import annotations

import json
from typing import Final

from starlette.types import Send

from sshwarma.common.limits import RATE_WINDOW_SECONDS
from sshwarma.terminal.escape import escape_lines

REFUSED_CODE: Final = -32000
"""Code of an error that answers a request without access: one of those left to servers."""


def make_error(request_id: str | int | None, code: int, text: str) -> bytes:
    """Return a JSON-RPC error; control characters of its text are shown."""
    error: dict[str, object] = {"code": code, "message": escape_lines(text)}
    answer = {"jsonrpc": "2.0", "id": request_id, "error": error}
    return json.dumps(answer, ensure_ascii=False).encode()


async def send_refusal(
    send: Send, status: int, text: str, retry_after_seconds: int = int(RATE_WINDOW_SECONDS)
) -> None:
    """Send a refusal: a status and one sentence; 429 and 503 say when to retry."""
    body = make_error(None, REFUSED_CODE, text)
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="sshwarma", error="invalid_token"'))
    if status == 408:
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    if status in (429, 503):
        headers.append((b"retry-after", str(retry_after_seconds).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
