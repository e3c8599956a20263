"""Messages of servers that are nested more deeply than the SDK's parser reads.

The parser refuses the whole message, which for a listing of tools is the whole server, over one
schema. So the deepest values are left out of a listing; their tool is refused later, alone.
"""

from __future__ import annotations

import re
from typing import Any, Final

from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse
from mcp_types import jsonrpc_message_adapter as adapter

from sshwarma.common.limits import MAX_SERVER_MESSAGE_DEPTH
from sshwarma.common.messages import with_limit

ANSWER_REFUSED_CODE: Final = -32_097
"""Error code of our own for a response that was rejected; not a code of the server's."""

MAX_CUT_CONTAINERS: Final = 200_000
"""Objects and lists of a message whose depth is counted: 0.1 s, in which everyone waits."""

# A string ends at its quote or with the message, so that no text is searched twice.
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


class DeepMessageReader:
    """Parses messages as the SDK's adapter does, and deep ones, too."""

    def validate_json(self, data: str | bytes, *, by_name: bool = False) -> JSONRPCMessage:
        """Return the message of a text; a deep response becomes an error response.

        Raises:
            ValueError: if the text is not a message.
        """
        try:
            return adapter.validate_json(data, by_name=by_name)
        except ValueError:
            shallow = cut_deep_json(data.encode() if isinstance(data, str) else data)
            if shallow is None:
                raise
        message = adapter.validate_json(shallow, by_name=by_name)
        if not isinstance(message, JSONRPCResponse) or _is_tool_listing(message.result):
            return message
        problem = with_limit("A message of the server is too deep", MAX_SERVER_MESSAGE_DEPTH)
        error = ErrorData(code=ANSWER_REFUSED_CODE, message=f"{problem}.")
        return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)


def cut_deep_json(data: bytes) -> bytes | None:
    """Replace values that are too deep by null; return None if none is."""
    if data.count(b"{") + data.count(b"[") > MAX_CUT_CONTAINERS:
        return None
    pieces: list[bytes] = []
    depth = kept_from = 0
    for token in _TOKEN.finditer(data):
        character = data[token.start()]
        if character in b"{[":
            depth += 1
            if depth == MAX_SERVER_MESSAGE_DEPTH + 1:
                pieces += (data[kept_from : token.start()], b"null")
        elif character in b"}]":
            if depth == MAX_SERVER_MESSAGE_DEPTH + 1:
                kept_from = token.end()
            depth -= 1
    return b"".join((*pieces, data[kept_from:])) if pieces else None


def _is_tool_listing(result: Any) -> bool:
    return isinstance(result, dict) and isinstance(result.get("tools"), list)
