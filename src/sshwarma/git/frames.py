"""Frames from the process to the server: data for the client, and states as JSON.

A frame is its kind, one byte, the length of its body, four bytes, and the body.
"""

from __future__ import annotations

import struct
from typing import Final

from sshwarma.common.units import MIB

HEAD: Final = struct.Struct(">cI")
"""Kind and length."""

DATA: Final = b"D"
"""For the client, as it is."""

STATE: Final = b"S"
"""For the server: an object of JSON with `state`."""

MAX_FRAME_BYTES: Final = 32 * MIB
"""Bytes of a frame: the changes of a push that changes every file of a full room."""
