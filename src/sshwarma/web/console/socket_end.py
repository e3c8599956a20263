"""How sockets of tabs end."""

from __future__ import annotations

import contextlib
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from sshwarma.world.errors import WorldError

MAX_REASON_BYTES: Final = 123
"""Bytes of the reason of a close, by RFC 6455."""

SIGNED_OUT: Final = 4401
LOST_ROOM: Final = 4403
TOO_MANY: Final = 4429
"""Codes with which a socket ends: the browser does not open it again for the first two."""


async def end_with(socket: WebSocket, error: WorldError, code: int) -> None:
    """Close an accepted socket with the reason, which a script sees then."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # it is closed already
        await socket.close(code, fit_reason(error.message))


def fit_reason(reason: str) -> str:
    """Return the beginning of a reason that a close may have."""
    return reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
