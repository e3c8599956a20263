"""The private names of httpx2: the one file that may use them.

`AsyncHTTPTransport` takes no network backend of the caller's, so its connection pool is replaced.
tests/mcp/test_httpx_shape.py holds the source this was written against.
"""

from __future__ import annotations

import ssl

import httpcore2
import httpx2


class GuardNotInstalled(httpx2.TransportError):
    """The address check has no place in this httpx2, so nothing may be connected to."""


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport whose every connection is made by `backend`.

    Raises:
        GuardNotInstalled: if the installed httpx2 keeps its connections in another way.
    """

    def __init__(
        self, context: ssl.SSLContext, backend: httpcore2.AsyncNetworkBackend, connections: int
    ) -> None:
        super().__init__(verify=context, trust_env=False)
        if "_pool" not in vars(self):
            raise GuardNotInstalled("this httpx2 has no connection pool that can be replaced")
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context, max_connections=connections, network_backend=backend
        )
        pools = [
            held
            for held in vars(self).values()
            if isinstance(held, httpcore2.AsyncConnectionPool) and held is not self._pool
        ]
        if pools:
            raise GuardNotInstalled("this httpx2 has a connection pool that was not replaced")
