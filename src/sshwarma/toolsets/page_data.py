"""The page of a renderer `html` with its data in it, as one file."""

from __future__ import annotations

import json
import re
from typing import Any, Final

DATA_NAME: Final = "__TOOL_DATA__"
"""Name of the variable that a page reads: `window.__TOOL_DATA__`."""

_HEAD_END: Final = re.compile(rb"</head\s*>", re.IGNORECASE)
_BODY_START: Final = re.compile(rb"<body(?:\s[^>]*)?>", re.IGNORECASE)


def insert_data(page: bytes, data: Any) -> bytes:
    """Return a page with its data, at the end of its head or the start of its body.

    The data cannot end the script: it has no `<`, and ASCII alone.
    """
    text = json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e")
    script = f"<script>window.{DATA_NAME} = {text};</script>".encode()
    if (found := _HEAD_END.search(page)) is not None:
        at = found.start()
    else:
        found = _BODY_START.search(page)
        at = found.end() if found is not None else 0
    return page[:at] + script + page[at:]
