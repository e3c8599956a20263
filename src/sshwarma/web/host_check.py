"""The check of the name under which a browser asks for a page.

A page of another site can let its own name point here, and ask then as a page of this server. So
requests are answered for known names alone. An address is no name, and passes: health checks and
networks at home use it.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sshwarma.common.shorten import shorten_name
from sshwarma.settings import HttpSettings, ReloadableSettings
from sshwarma.web.errors import make_error_body

_LOCAL_NAMES: Final = frozenset({"localhost"})

MISDIRECTED: Final = 421


class HostCheck:
    """An ASGI application that refuses requests for names that are not this server's."""

    def __init__(self, app: ASGIApp, settings: ReloadableSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as the application does."""
        given = next((value for name, value in scope["headers"] if name == b"host"), b"")
        host = given.decode("latin-1")
        if given and not is_known_host(host, self._settings.http):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close"})  # before it is accepted: HTTP 403
                return
            message = f"This server is not {shorten_name(host)}."
            hint = "Its operator lists its names with the setting http.hosts."
            body = make_error_body("misdirected", message, hint)
            await JSONResponse(body, status_code=MISDIRECTED)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_known_host(host: str, settings: HttpSettings) -> bool:
    """Return whether NAME[:PORT] is an address, localhost, or in the settings."""
    name = split_host(host)
    if name is None:
        return False
    public = urlsplit(settings.public_url).hostname or ""
    if name in _LOCAL_NAMES or name == public.lower():
        return True
    if any(name == split_host(one) for one in settings.hosts):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def split_host(host: str) -> str | None:
    """Return the name of NAME[:PORT] in lower case; None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        if parts.username is not None or parts.path or parts.query or parts.fragment:
            return None
        _ = parts.port
        return parts.hostname
    except ValueError:
        return None
