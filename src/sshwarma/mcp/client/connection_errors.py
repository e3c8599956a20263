"""Messages for the errors that end a connection to a server."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from sshwarma.mcp.client.link import KeyRequired, LinkLost, SignInRequired
from sshwarma.mcp.client.sanitize import strip_invisible
from sshwarma.mcp.client.server_state import ServerState
from sshwarma.settings import McpSettings
from sshwarma.world.errors import Unavailable, WorldError
from sshwarma.world.reader import Hint, next_call

log = structlog.get_logger(__name__)

MAX_REASON_CHARACTERS: Final = 300

FOREIGN_LIBRARIES: Final = ("mcp", "httpx2", "httpcore2", "anyio", "pydantic_core")
"""Libraries whose errors describe the server.

An error of any other module is a bug and is logged.
"""


def first_error(error: BaseException) -> BaseException:
    """Return a group's first error that is no cancellation; other errors as they are."""
    while isinstance(error, BaseExceptionGroup):
        inner = [e for e in error.exceptions if not isinstance(e, asyncio.CancelledError)]
        error = (inner or list(error.exceptions))[0]
    return error


def is_unreachable(error: BaseException) -> bool:
    """Return whether an error says that the server's port cannot be reached."""
    return type(error).__name__ in ("ConnectError", "ConnectTimeout")


def sign_in_hint(name: str) -> Hint:
    """Return the hint of a refusal because a server requires a sign-in."""
    return next_call("An owner signs in with {}.", "mcp login", name=name)


def down_hint(settings: McpSettings, state: ServerState, retry_seconds: float | None) -> Hint:
    """Return the hint of a refusal because a server is not connected."""
    if state == "needs-sign-in":
        return sign_in_hint(settings.name)
    if retry_seconds is None:
        return ""
    return f"Reconnecting in {max(1, round(retry_seconds))} s."


def call_refused_error(name: str, needs: KeyRequired) -> Unavailable:
    """Return the refusal of a call because a server rejected our credentials."""
    hint = sign_in_hint(name) if isinstance(needs, SignInRequired) else ""
    return Unavailable(f"{name} refused the call: {needs}.", hint=hint)


def describe_connection_error(error: BaseException, settings: McpSettings) -> str:
    """Return why a connection failed, one line of MAX_REASON_CHARACTERS at most."""
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
