"""Where a URL may lead: every address that a name stands for is checked, and the one that was
checked is the one that is connected to.

A server that connects wherever it is told can be told to ask its own machine or network: loopback,
private ranges, a cloud's metadata service. Names, decimal and hexadecimal forms are all judged by
the addresses they resolve to, at the moment of each connection.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from sshwarma.world.errors import Invalid, WorldError

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

_NAT64: Final = (
    ipaddress.IPv6Network("64:ff9b::/96"),
    ipaddress.IPv6Network("64:ff9b:1::/48"),
)
_PROTOCOL_ASSIGNMENTS: Final = ipaddress.IPv4Network(
    "192.0.0.0/24"
)  # older Pythons call some of it global
_IPV4_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


class BlockedAddress(WorldError):
    """An address that may not be connected to."""

    code = "blocked"


def check_url(url: str) -> SplitResult:
    """The parts of a URL that can be that of a server.

    Raises:
        Invalid: if it is not http or https, names no host, or carries a user or password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Invalid(f"{ascii(url)[1:-1][:80]} is not an address: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise Invalid(
            f"{ascii(url)[1:-1][:80]} is not an address of a server.",
            hint="As in https://mcp.example.org/mcp",
        )
    if parts.username is not None or parts.password is not None:
        raise Invalid(
            "A user or password does not belong into an address.",
            hint="--header 'Authorization: Bearer ${NAME}' reads it from the environment.",
        )
    return parts


async def resolve_host(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system knows them.

    Raises:
        OSError: if it knows none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def resolve_allowed(
    host: str, port: int, *, allow_private: bool, resolve: Resolver = resolve_host
) -> list[str]:
    """The addresses of a host, if each of them may be connected to.

    Raises:
        BlockedAddress: if one of them may not.
        OSError: if the name is not known.
    """
    addresses = await resolve(host.strip("[]"), port)
    for text in addresses:
        wrong = refusal_reason(text, allow_private=allow_private)
        if wrong:
            named = "" if text == host else f"{host} leads to "
            raise BlockedAddress(
                f"{named}{text}, which is {wrong}.",
                hint="" if wrong == FORBIDDEN_REASON else "--allow-private lets a server be there.",
            )
    if not addresses:
        raise OSError(f"{host} has no address")
    return addresses


FORBIDDEN_REASON: Final = "no place for a server"
PRIVATE_REASON: Final = "on this machine or in a private network"


def refusal_reason(text: str, *, allow_private: bool) -> str:
    """What is wrong with connecting to an address; empty if nothing is."""
    try:
        outer = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return FORBIDDEN_REASON
    for address in (outer, *_embedded_ipv4(outer)):
        if address.is_multicast or address.is_link_local or address.is_unspecified:
            return FORBIDDEN_REASON  # link-local is where clouds keep the keys of their machines
        public = (
            address.is_global and not address.is_reserved and address not in _PROTOCOL_ASSIGNMENTS
        )
        if not public and not allow_private:
            return PRIVATE_REASON
    return ""


def _embedded_ipv4(address: IpAddress) -> list[IpAddress]:
    """The IPv4 addresses that a v6 one stands for: it leads there too."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    found: list[IpAddress] = []
    for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if inner is not None:
            found.append(inner)
    embeds = any(address in network for network in _NAT64) or (
        address in _IPV4_COMPATIBLE and int(address) > 1
    )
    if embeds:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found
