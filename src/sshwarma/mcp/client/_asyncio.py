"""The private names of asyncio: the one file that may use them."""

from __future__ import annotations

from asyncio import BaseTransport
from asyncio.subprocess import Process


def close_process_transport(process: Process) -> None:
    """Close the pipes of an ended subprocess without waiting for garbage collection."""
    transport = getattr(process, "_transport", None)
    if isinstance(transport, BaseTransport):
        transport.close()
