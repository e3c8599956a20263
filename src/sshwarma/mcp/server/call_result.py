"""Tool results in the protocol: text, structured content, attachments, refusals."""

from __future__ import annotations

import hashlib
from base64 import b64encode

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

from sshwarma.terminal.escape import escape_lines
from sshwarma.tools.provider import ToolResult
from sshwarma.world.attachments import Attachment


def make_refusal(text: str) -> CallToolResult:
    """Return the error result of a refused call; control characters are shown."""
    return CallToolResult(content=[TextContent(text=escape_lines(text))], is_error=True)


def to_call_result(result: ToolResult) -> CallToolResult:
    """Convert the result of a tool to one of the protocol.

    Structured content must be an object; an error has none.
    """
    structured = result.structured if isinstance(result.structured, dict) else None
    return CallToolResult(
        content=[TextContent(text=result.text), *map(_to_content_block, result.attachments)],
        structured_content=None if result.is_error else structured,
        is_error=result.is_error,
    )


def _to_content_block(attachment: Attachment) -> ImageContent | AudioContent | EmbeddedResource:
    """Convert an attachment to a content block of MCP."""
    data = b64encode(attachment.data).decode()
    match attachment.media_type.partition("/")[0]:
        case "image":
            return ImageContent(data=data, mime_type=attachment.media_type)
        case "audio":
            return AudioContent(data=data, mime_type=attachment.media_type)
    digest = hashlib.sha256(attachment.data).hexdigest()
    blob = BlobResourceContents(uri=f"sha256:{digest}", mime_type=attachment.media_type, blob=data)
    return EmbeddedResource(resource=blob)
