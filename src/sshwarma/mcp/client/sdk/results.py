"""Conversion of MCP tool results to `ToolResult`."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator

import mcp_types as types

from sshwarma.common.limits import MAX_CALL_ATTACHMENTS
from sshwarma.tools.provider import ToolResult
from sshwarma.tools.result_check import format_value
from sshwarma.world.attachments import Attachment, parse_media_type


def convert_result(answer: types.CallToolResult) -> ToolResult:
    """Convert a tool result: text, structured value and attachments.

    A line such as `[image: ...]` stands in the text for each block that is not text.
    """
    attachments: list[Attachment] = []
    text = "\n".join(_block_texts(answer, attachments))
    structured = answer.structured_content
    if not text and structured is not None:
        text = format_value(structured)
    return ToolResult(
        text, structured, is_error=bool(answer.is_error), attachments=tuple(attachments)
    )


def _block_texts(answer: types.CallToolResult, attachments: list[Attachment]) -> Iterator[str]:
    for block in answer.content:
        match block:
            case types.TextContent():
                yield block.text
            case types.ImageContent():
                yield _keep_attachment("image", block.mime_type, block.data, attachments)
            case types.AudioContent():
                yield _keep_attachment("audio", block.mime_type, block.data, attachments)
            case types.ResourceLink():
                description = f": {block.description}" if block.description else ""
                yield f"[link {block.name} <{block.uri}>{description}]"
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                yield f"[{resource.uri}]\n{resource.text}"
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                yield _keep_attachment(
                    str(resource.uri), resource.mime_type, resource.blob, attachments
                )


def _keep_attachment(
    what: str, declared: str | None, base64: str, attachments: list[Attachment]
) -> str:
    """Add binary data to the attachments; return the line that stands for it."""
    kind = parse_media_type(declared)
    try:
        data = b64decode(base64, validate=True)
    except ValueError:
        return f"[{what}: {kind}, unreadable]"
    size = f"{kind}, {len(data):,} bytes"
    if len(attachments) >= MAX_CALL_ATTACHMENTS:
        return f"[{what}: {size}, dropped: over {MAX_CALL_ATTACHMENTS} attachments]"
    attachments.append(Attachment(kind, data))
    return f"[{what}: {size}, attachment {len(attachments)}]"
