"""The address and the scheme of the client behind a proxy that is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from sshwarma.common.address_groups import group_address
from sshwarma.common.messages import with_limit
from sshwarma.common.networks import is_in_networks
from sshwarma.common.refusals import count_refusal
from sshwarma.settings import ReloadableSettings, is_loopback
from sshwarma.web.errors import refuse
from sshwarma.world.errors import RateLimited

FORWARDED_HEADER: Final = b"x-forwarded-for"
SCHEME_HEADER: Final = b"x-forwarded-proto"


class ForwardedAddress:
    """Replaces peer and scheme of a request by what a proxy names.

    A proxy is on loopback, or in the setting `http.proxy_from`.

    Redirects have the scheme: with the proxy's own, a client would follow to one without TLS.
    An address that a proxy names has a limit of open requests, because the proxy has none: that of
    connections of other addresses.
    """

    def __init__(self, app: ASGIApp, settings: ReloadableSettings) -> None:
        self._app = app
        self._settings = settings
        self._open_counts: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as the application does."""
        peer = scope.get("client")
        networks = self._settings.http.proxy_from
        if peer is not None and is_proxy(peer[0], networks):
            forwarded, scheme = (
                b",".join(value for name, value in scope["headers"] if name == wanted)
                for wanted in (FORWARDED_HEADER, SCHEME_HEADER)
            )
            address = find_client_address(peer[0], forwarded.decode("latin-1"), networks)
            # In place: the connection reads what its door writes into this scope.
            scope["client"] = (address, peer[1])
            last = scheme.rpartition(b",")[2].strip().lower()
            if last in (b"http", b"https"):
                scope["scheme"] = last.decode()
            if not is_proxy(address, networks):
                await self._answer_counted(group_address(address), scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer_counted(self, group: str, scope: Scope, receive: Receive, send: Send) -> None:
        limit = self._settings.http.max_connections_per_address
        if self._open_counts[group] >= limit:
            count_refusal("http_address")
            problem = with_limit("Too many open requests from your address", limit)
            refused = RateLimited(f"{problem}.", retry_after_seconds=1)
            await refuse(refused)(scope, receive, send)
            return
        self._open_counts[group] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open_counts[group] -= 1
            if not self._open_counts[group]:
                del self._open_counts[group]


def is_proxy(address: str, networks: Sequence[str]) -> bool:
    """Return whether what an address names as its client is believed."""
    return is_loopback(address) or is_in_networks(address, networks)


def find_client_address(peer: str, forwarded: str, networks: Sequence[str] = ()) -> str:
    """Return the last address of X-Forwarded-For that is not of a proxy.

    Each proxy appends the one that it was asked from; what stands before, anybody can write.
    Text that is not an address was written by a proxy, so the address is the peer's. So was
    the zone of an IPv6 address (`fe80::1%eth0`), which can be any text.
    """
    for hop in reversed(forwarded.split(",")):
        try:
            address = ip_address(hop.strip())
        except ValueError:
            return peer
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            return peer
        if not is_proxy(str(address), networks):
            return str(address)
    return peer
