"""The page of a renderer `html` with its data in it, as one file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

DATA_NAME: Final = "__TOOL_DATA__"
"""Name of the variable that a page reads: `window.__TOOL_DATA__`."""

_POLICY: Final = (
    b'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="'
    b"default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    b" img-src data: blob:; font-src data:; media-src data: blob:;"
    b" form-action 'none'; base-uri 'none'; require-trusted-types-for 'script';"
    b' trusted-types default">'
)
"""What a page may do: all of it is in one file, and it sends nothing anywhere.

Before that stands how it is written: in another encoding a file could hide a tag from `_FRAME_TAG`.
"""

_GUARD: Final = (
    b"<script>" + Path(__file__).with_name("page_guard.js").read_bytes().strip() + b"</script>"
)
"""Closes the ways out that a policy leaves: WebRTC, and leaving for another page.

A frame would have a window of its own with all of that again, and a policy does not stop one whose
text is in the page. So a page has none: neither in its text (`_FRAME_TAG`) nor, where browsers have
trusted types, by its scripts.
"""

_FRAME_TAG: Final = re.compile(
    rb"<(?=/?(?:i?frame|frameset|fencedframe|object|embed|link)[\s/>])", re.IGNORECASE
)

PAGE_BEGIN: Final = _POLICY + _GUARD
"""What a page begins with, behind its doctype."""

_DOCTYPE: Final = re.compile(rb"\s*(?:<!doctype[^>]*>)?", re.IGNORECASE)
_HEAD_END: Final = re.compile(rb"</head\s*>", re.IGNORECASE)
_BODY_START: Final = re.compile(rb"<body(?:\s[^>]*)?>", re.IGNORECASE)


def insert_data(page: bytes, data: Any) -> bytes:
    """Return a page with its data, at the end of its head or the start of its body.

    The data cannot end the script: it has no `<`, and ASCII alone. The page has a policy and a
    guard before all else, by which it loads and sends nothing: it is opened as a file, with the
    data in it. Frames in it are shown as text.
    """
    page = _FRAME_TAG.sub(b"&lt;", page)
    text = json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e")
    script = f"<script>window.{DATA_NAME} = {text};</script>".encode()
    if (found := _HEAD_END.search(page)) is not None:
        at = found.start()
    else:
        found = _BODY_START.search(page)
        at = found.end() if found is not None else find_start(page)
    whole = page[:at] + script + page[at:]
    start = find_start(whole)
    return whole[:start] + PAGE_BEGIN + whole[start:]


def find_start(page: bytes) -> int:
    """Return where a page begins, behind its doctype.

    The head begins there, whatever follows: a `<head>` could stand in a comment.
    """
    begin = _DOCTYPE.match(page)
    return begin.end() if begin is not None else 0
