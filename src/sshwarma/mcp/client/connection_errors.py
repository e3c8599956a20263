"""Messages for the errors that end a connection to a server."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from sshwarma.mcp.client.link import KeyRequired, LinkLost
from sshwarma.mcp.client.sanitize import strip_invisible
from sshwarma.settings import McpSettings
from sshwarma.world.errors import WorldError

log = structlog.get_logger(__name__)

MAX_REASON_CHARACTERS: Final = 300

FOREIGN_LIBRARIES: Final = ("mcp", "httpx2", "httpcore2", "anyio", "pydantic_core")
"""Libraries whose errors describe the server.

An error of any other module is a bug and is logged.
"""


def first_error(error: BaseException) -> BaseException:
    """Return the first error of a group that is not a cancellation; other errors as they are."""
    while isinstance(error, BaseExceptionGroup):
        inner = [e for e in error.exceptions if not isinstance(e, asyncio.CancelledError)]
        error = (inner or list(error.exceptions))[0]
    return error


def is_unreachable(error: BaseException) -> bool:
    """Return whether an error says that the server's port cannot be reached."""
    return type(error).__name__ in ("ConnectError", "ConnectTimeout")


def describe_connection_error(error: BaseException, settings: McpSettings) -> str:
    """Return the reason why a connection failed, at most MAX_REASON_CHARACTERS of one line."""
    if isinstance(error, TimeoutError):
        return f"connecting timed out after {settings.start_seconds:g} s"
    reason = strip_invisible(str(error)).partition("\n")[0].rstrip(".")
    reason = reason or f"the connection broke ({type(error).__name__})"
    origin = type(error).__module__.partition(".")[0]
    if (
        not isinstance(error, (WorldError, KeyRequired, LinkLost, OSError))
        and origin not in FOREIGN_LIBRARIES
    ):
        log.error("a link failed", server=settings.name, exc_info=error)
    return reason[:MAX_REASON_CHARACTERS]
