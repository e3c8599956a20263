"""Reconnection to a lost server: backoff, and a check whether its port is open."""

from __future__ import annotations

import asyncio
import random
from urllib.parse import urlsplit

from sshwarma.mcp.client.address import resolve_allowed
from sshwarma.mcp.client.server_state import LOCKED_OUT_STATES, ServerState, SupervisorTiming
from sshwarma.settings import McpSettings
from sshwarma.world.errors import WorldError


def backoff_seconds(timing: SupervisorTiming, state: ServerState, failures: int) -> float:
    """Return the seconds before the next attempt after `failures` attempts in a row.

    Doubles up to `max_retry_seconds`, with jitter, so that servers do not retry together. A server
    that waits for a person is tried at the interval of a refresh.
    """
    if state in LOCKED_OUT_STATES:
        return timing.refresh
    seconds = min(timing.max_retry_seconds, timing.first_retry_seconds * 2 ** min(failures - 1, 20))
    return float(seconds * random.uniform(0.5, 1.5))  # noqa: S311 - jitter


async def is_port_open(settings: McpSettings, timeout_seconds: float) -> bool:
    """Return whether the port of a server with a URL accepts connections."""
    parts = urlsplit(settings.url or "")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(timeout_seconds):
            addresses = await resolve_allowed(
                parts.hostname or "", port, allow_private=settings.allow_private
            )
            _, writer = await asyncio.open_connection(addresses[0], port)
    except (OSError, TimeoutError, WorldError):
        return False
    writer.close()
    return True
