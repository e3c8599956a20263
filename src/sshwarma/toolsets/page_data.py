"""The page of a renderer `html` with its data in it, as one file."""

from __future__ import annotations

import json
import re
from typing import Any, Final

DATA_NAME: Final = "__TOOL_DATA__"
"""Name of the variable that a page reads: `window.__TOOL_DATA__`."""

_POLICY: Final = (
    b'<meta http-equiv="Content-Security-Policy" content="'
    b"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    b" img-src data: blob:; font-src data:; media-src data: blob:;"
    b" form-action 'none'; base-uri 'none'\">"
)
"""What a page may do: all of it is in one file, and it sends nothing anywhere."""

_DOCTYPE: Final = re.compile(rb"\s*(?:<!doctype[^>]*>)?", re.IGNORECASE)
_HEAD_END: Final = re.compile(rb"</head\s*>", re.IGNORECASE)
_BODY_START: Final = re.compile(rb"<body(?:\s[^>]*)?>", re.IGNORECASE)


def insert_data(page: bytes, data: Any) -> bytes:
    """Return a page with its data, at the end of its head or the start of its body.

    The data cannot end the script: it has no `<`, and ASCII alone. The page has a policy before
    all else, by which it loads and sends nothing: it is opened as a file, with the data in it.
    """
    text = json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e")
    script = f"<script>window.{DATA_NAME} = {text};</script>".encode()
    if (found := _HEAD_END.search(page)) is not None:
        at = found.start()
    else:
        found = _BODY_START.search(page)
        at = found.end() if found is not None else find_start(page)
    whole = page[:at] + script + page[at:]
    start = find_start(whole)
    return whole[:start] + _POLICY + whole[start:]


def find_start(page: bytes) -> int:
    """Return where a page begins, behind its doctype.

    The head begins there, whatever follows: a `<head>` could stand in a comment.
    """
    begin = _DOCTYPE.match(page)
    return begin.end() if begin is not None else 0
