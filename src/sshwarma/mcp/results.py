"""What a server gave back, as people, models and rows take it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import mcp_types as types

from sshwarma.tools.call import Result


def result_of(answer: types.CallToolResult) -> Result:
    """Its text, with a word in place of whatever is no text; and the value, if it gave one."""
    text = "\n".join(_texts(answer))
    structured = answer.structured_content
    if not text and structured is not None:
        text = json.dumps(structured, ensure_ascii=False, indent=2)
    return Result(text, structured, failed=bool(answer.is_error))


def _texts(answer: types.CallToolResult) -> Iterator[str]:
    for block in answer.content:
        match block:
            case types.TextContent():
                yield block.text
            case types.ImageContent():
                yield _binary("image", block.mime_type, block.data)
            case types.AudioContent():
                yield _binary("audio", block.mime_type, block.data)
            case types.ResourceLink():
                about = f": {block.description}" if block.description else ""
                yield f"[link {block.name} <{block.uri}>{about}]"
            case types.EmbeddedResource(resource=types.TextResourceContents() as inside):
                yield f"[{inside.uri}]\n{inside.text}"
            case types.EmbeddedResource(resource=types.BlobResourceContents() as inside):
                yield _binary(str(inside.uri), inside.mime_type or "unknown", inside.blob)


def _binary(what: str, kind: str, base64: str) -> str:
    """Bytes are not for a log: their type and size are."""
    size = len(base64.rstrip("=")) * 3 // 4
    return f"[{what}: {kind}, {size:,} bytes, not shown]"
