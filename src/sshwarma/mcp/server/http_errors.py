"""Error responses of the SDK, rewritten as JSON-RPC errors of one sentence."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from mcp_types import INVALID_REQUEST, PARSE_ERROR
from starlette.types import Message, Send

from sshwarma.mcp.server.refusals import make_error

_SDK_DETAILS: Final = ("Validation error", "Parse error")
"""Beginnings of messages of the SDK that contain the details of a Python exception."""


async def send_sdk_error(send: Send, start: Message, body: bytes) -> None:
    """Send an error response of the SDK as a JSON-RPC error of one sentence."""
    status = start["status"]
    code, text, request_id = INVALID_REQUEST, body.decode(errors="replace"), None
    try:
        data = json.loads(body)
        code, text, request_id = data["error"]["code"], data["error"]["message"], data.get("id")
    except (ValueError, RecursionError, LookupError, TypeError):
        pass
    else:
        if "\n" not in text and not text.startswith(_SDK_DETAILS):
            await send(start)
            await send({"type": "http.response.body", "body": body, "more_body": False})
            return
    if text.startswith("Parse error"):
        code, text = PARSE_ERROR, "The request body is not JSON."
    elif text.startswith("Validation error"):
        # The SDK calls it invalid params, but the message itself is malformed.
        code, text = INVALID_REQUEST, "The request body is not a JSON-RPC 2.0 message."
    else:
        sentence = text.partition("\n")[0].strip() or HTTPStatus(status).phrase
        text = f"{sentence.removesuffix('.')}."
    content = make_error(request_id, code, text)
    other_headers = [
        (name, value)
        for name, value in start.get("headers", ())
        if name.lower() not in (b"content-type", b"content-length")
    ]
    headers = [
        *other_headers,
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
    ]
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": False})
