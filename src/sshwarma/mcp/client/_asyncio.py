"""The private names of asyncio: the one file that may use them."""

from __future__ import annotations

from asyncio import BaseTransport
from asyncio.subprocess import Process


def close_process_transport(process: Process) -> None:
    """Close the pipes of an ended subprocess now; asyncio closes them when it is collected."""
    transport = getattr(process, "_transport", None)
    if isinstance(transport, BaseTransport):
        transport.close()
