"""Lines of git's protocol: each begins with its length, as four hex digits."""

from __future__ import annotations

from typing import Final

FLUSH: Final = b"0000"
"""The line that ends a section."""

MAX_ERROR_BYTES: Final = 4096
"""Bytes of a message for the client: it is one line of a terminal."""

BRANCH: Final = b"refs/heads/main"
"""The one branch of a room."""

SIDE_BAND: Final = b"side-band-64k"
"""The capability to send data and messages beside each other."""


def encode_line(data: bytes) -> bytes:
    """Return a line with its length."""
    return b"%04x%b" % (len(data) + 4, data)


def encode_error(message: str) -> bytes:
    """Return what a client shows as `fatal: remote error: MESSAGE`."""
    text = " ".join(message.split()).encode()[:MAX_ERROR_BYTES]
    return encode_line(b"ERR %b\n" % text)


def encode_report(ref: bytes, reason: str, *, side_band: bool) -> bytes:
    """Return the report of a push: "" as a reason says that it was accepted."""
    text = " ".join(reason.split()).encode()[:MAX_ERROR_BYTES]
    line = b"ng %b %b\n" % (ref, text) if text else b"ok %b\n" % ref
    report = encode_line(b"unpack ok\n") + encode_line(line) + FLUSH
    return encode_line(b"\1" + report) + FLUSH if side_band else report
