"""Results whose bytes a pipe gets as they are, for a file and not for a screen."""

from __future__ import annotations

import base64

from sshwarma.verbs.attachment import AttachmentData
from sshwarma.verbs.mem_views import MemoryMatches, MemoryText, MemoryValue
from sshwarma.verbs.run import is_failed_run


def is_failed(result: object) -> bool:
    """Return whether a command ends with a failure, also of a missing key."""
    is_missing = isinstance(result, (MemoryMatches, MemoryValue)) and not result.found
    return is_missing or is_failed_run(result)


def find_piped_bytes(result: object) -> bytes | None:
    """Return the bytes of such a result; None for one that is drawn."""
    if isinstance(result, AttachmentData):
        return base64.b64decode(result.data)
    if isinstance(result, MemoryText):
        return _end_line(result.exact_text, is_exact=result.is_part)
    if isinstance(result, MemoryValue):
        return _end_line(result.exact_text, is_exact=not result.sentence)
    return None


def _end_line(text: str, *, is_exact: bool) -> bytes:
    """Return a text with a line end, unless it is one that somebody stored."""
    return (text if is_exact else f"{text}\n").encode()
