"""The parts of httpx2 that `mcp.client._httpx` replaces have not changed.

If this fails after an upgrade: read the change, see that every connection is still made by the
pool that `GuardedTransport` installs, then put the new digest here. Through a pool of another name
a server's address would be connected to without being checked.
"""

from __future__ import annotations

import ssl
from typing import Any

import httpcore2
import httpx2
import pytest

from sshwarma.mcp.client.sdk._httpx import GuardedTransport, GuardNotInstalled
from sshwarma.mcp.client.sdk.http import CheckedNetworkBackend, CheckedTransport
from support.source_digest import digest_of

READ_AT = "2.16.2"

DIGESTS = {
    "httpx2:AsyncHTTPTransport.__init__": "ed8da41b7119",
    "httpx2:AsyncHTTPTransport.__aenter__": "e3a390f38d29",
    "httpx2:AsyncHTTPTransport.aclose": "cef6e5ca8a3e",
    "httpx2:AsyncHTTPTransport.handle_async_request": "98fe49895e68",
    "httpcore2:AsyncConnectionPool.__init__": "4d1dfb762620",
    "httpcore2:AsyncConnectionPool.create_connection": "fc66d06cb21b",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_replaced_httpx_code_is_unchanged(name: str) -> None:
    assert digest_of(name) == DIGESTS[name], f"{name} changed since {READ_AT}; read it first"


class _Refusing(httpcore2.AsyncNetworkBackend):
    """Connects to nothing, and notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> Any:
        self.asked.append((host, port))
        raise httpcore2.ConnectError("refused here")


async def test_every_connection_uses_the_network_backend() -> None:
    backend = _Refusing()
    transport = GuardedTransport(ssl.create_default_context(), backend, 2)
    async with httpx2.AsyncClient(transport=transport) as client:
        for url in ("http://127.0.0.1:1/", "https://[::1]:2/"):
            with pytest.raises(httpx2.ConnectError, match="refused here"):
                await client.get(url)
    assert backend.asked == [("127.0.0.1", 1), ("::1", 2)]


def _renamed(name: str, keep: bool) -> Any:
    """The `__init__` of an httpx2 whose transport keeps its pool under another name."""
    stock = httpx2.AsyncHTTPTransport.__init__

    def init(self: Any, *given: Any, **named: Any) -> None:
        stock(self, *given, **named)
        setattr(self, name, self._pool)
        if not keep:
            del self._pool

    return init


@pytest.mark.parametrize("keep", [False, True], ids=["gone", "unused"])
def test_renamed_connection_pool_is_refused(keep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """VULNERABILITY: connections would be made without a check of the address (SSRF)."""
    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "__init__", _renamed("_connections", keep))
    with pytest.raises(GuardNotInstalled, match=r"this httpx2 version (has|keeps)"):
        CheckedTransport(
            ssl.create_default_context(), CheckedNetworkBackend(allow_private=False), 2
        )
