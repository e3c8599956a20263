"""Ports for servers whose settings name one."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

_BELOW_EPHEMERAL = range(20_000, 32_000)
"""The kernel gives none of these to the connections of other tests meanwhile."""


def find_free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            port = random.choice(_BELOW_EPHEMERAL)
            probe = stack.enter_context(socket.socket())
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            ports.append(port)
        return ports
