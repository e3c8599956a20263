"""The private names of httpx2: the one file that may use them.

`AsyncHTTPTransport` accepts no network backend, so this replaces its connection pool.
tests/mcp_client/test_httpx_shape.py holds the source this was written against.
"""

from __future__ import annotations

import ssl

import httpcore2
import httpx2


class GuardNotInstalled(httpx2.TransportError):
    """This httpx2 cannot check addresses, so every connection is refused."""


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """HTTP transport that makes every connection through `backend`.

    Raises:
        GuardNotInstalled: if the installed httpx2 has another connection pool.
    """

    def __init__(
        self, context: ssl.SSLContext, backend: httpcore2.AsyncNetworkBackend, connections: int
    ) -> None:
        super().__init__(verify=context, trust_env=False)
        if "_pool" not in vars(self):
            raise GuardNotInstalled("this httpx2 version has no replaceable connection pool")
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context, max_connections=connections, network_backend=backend
        )
        pools = [
            pool
            for pool in vars(self).values()
            if isinstance(pool, httpcore2.AsyncConnectionPool) and pool is not self._pool
        ]
        if pools:
            raise GuardNotInstalled("this httpx2 version keeps a second connection pool")
