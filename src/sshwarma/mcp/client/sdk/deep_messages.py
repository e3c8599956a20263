"""Messages of servers that are nested more deeply than the SDK's parser reads.

The parser refuses the whole message, which for a listing of tools is the whole server, over one
schema. So the deepest values are left out of a listing; their tool is refused later, alone.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse
from mcp_types import jsonrpc_message_adapter as adapter
from typing_extensions import override

from sshwarma.common.json_guard import JsonTooLarge, check_json_size
from sshwarma.common.limits import MAX_SERVER_MESSAGE_DEPTH
from sshwarma.common.messages import with_limit

ANSWER_REFUSED_CODE: Final = -32_097
"""Error code of our own for a response that was rejected; not a code of the server's."""

EDGE_BYTES: Final = 512
"""Bytes of each end of a refused message in which its id is looked for."""

_ID_PATTERN: Final = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")')

# A string ends at its quote or with the message, so that no text is searched twice.
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


class DeepMessageReader:
    """Parses messages as the SDK's adapter does, and deep ones, too."""

    def validate_json(self, data: str | bytes, *, by_name: bool = False) -> JSONRPCMessage:
        """Return the message of a text; a deep response becomes an error response.

        Raises:
            JsonTooLarge: if the text has too many values.
            ValueError: if the text is not a message.
        """
        check_json_size(data)
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


class HttpMessageReader(DeepMessageReader):
    """Parses messages of responses; one too large becomes an error response."""

    @override
    def validate_json(self, data: str | bytes, *, by_name: bool = False) -> JSONRPCMessage:
        try:
            return super().validate_json(data, by_name=by_name)
        except JsonTooLarge as error:
            whole = data.encode() if isinstance(data, str) else data
            problem = f"A message of the server {error}"
            refusal = refuse_message((whole[:EDGE_BYTES], whole[-EDGE_BYTES:]), problem)
            if refusal is None:
                raise
            return refusal


def refuse_message(edges: tuple[bytes, bytes], problem: str) -> JSONRPCError | None:
    """Return the error response to a rejected response, if its edges show the id."""
    request_id = _ID_PATTERN.search(edges[0]) or _ID_PATTERN.search(edges[1])
    if request_id is None or b'"method"' in edges[0]:
        return None
    error = ErrorData(code=ANSWER_REFUSED_CODE, message=f"{problem}.")
    return JSONRPCError(jsonrpc="2.0", id=json.loads(request_id[1]), error=error)


def cut_deep_json(data: bytes) -> bytes | None:
    """Replace values that are too deep by null; return None if none is."""
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
