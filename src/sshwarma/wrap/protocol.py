"""The protocol between server and worker: frames of a kind and a body.

A frame is its length in 4 bytes (big-endian, of the rest), one byte of kind, and a body of JSON in
UTF-8. The server leads every exchange:

    server            worker
    SETUP LuaLimits
                      READY
    RUN scripts, entry, snapshot
                      CALL [name, arguments]      any number of times
    ANSWER {ok, value}
                      VALUE {value, log}  or  ERROR {kind, message, script, line, log}
    RUN ...
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sshwarma.common.limits import LAYER_TIMEOUT_SECONDS
from sshwarma.common.units import KIB, MIB

SETUP: Final = b"S"
READY: Final = b"K"
RUN: Final = b"R"
CALL: Final = b"C"
ANSWER: Final = b"A"
VALUE: Final = b"V"
ERROR: Final = b"E"

LENGTH_BYTES: Final = 4
HEADER_BYTES: Final = LENGTH_BYTES + 1
MAX_ENVELOPE_BYTES: Final = 64 * KIB
"""Bytes a frame may have besides the value or the log in it."""
MAX_ESCAPE_BYTES: Final = 6
"""Maximum number of bytes of JSON for one byte of text."""
OUT_OF_MEMORY_STATUS: Final = 77
"""Exit status of a worker whose Python, not whose Lua, ran out of memory."""


class LuaLimits(NamedTuple):
    """Limits of one run, and of the number of runs. Sizes in bytes, times in seconds."""

    run_seconds: float = LAYER_TIMEOUT_SECONDS  # of running, without the time waiting for host.call
    total_seconds: float = 60.0  # with waiting
    interrupt_fraction: float = 0.9  # of `run_seconds`; then an interruptible script is stopped
    max_memory_bytes: int = 256 * MIB  # address space of the process over its size at the start
    max_output_bytes: int = MIB  # JSON of the result, and of the arguments of each call
    max_log_bytes: int = 64 * KIB  # of printed text; the rest is dropped with a note
    max_input_bytes: int = 16 * MIB  # JSON of scripts and snapshot, and of each answer to a call
    max_calls: int = 256  # of host.call in one run
    max_concurrent_runs: int = 4  # concurrent runs; there is one process more, the spare
    max_waiting_runs: int = 256  # runs that may wait for a worker
    max_runs_per_worker: int = 1_000  # runs after which a worker is replaced

    @property
    def max_lua_bytes(self) -> int:
        """Bytes the Lua state may hold, with snapshot and scripts.

        The rest is for the worker itself: frames, and the snapshot in transit.
        """
        return self.max_memory_bytes * 3 // 4

    @property
    def max_answer_bytes(self) -> int:
        """The longest frame a worker may send."""
        return self.max_output_bytes + MAX_ESCAPE_BYTES * self.max_log_bytes + MAX_ENVELOPE_BYTES


class LuaScript(NamedTuple):
    """A Lua script, with the name used by import and in error messages."""

    name: str
    source: str


def encode_frame(kind: bytes, body: bytes) -> bytes:
    """Return a frame: its length, the kind (one byte) and the body."""
    return (len(body) + 1).to_bytes(LENGTH_BYTES, "big") + kind + body
