"""Protection against SSRF: check the addresses that a URL resolves to.

A server that connects to any URL can be made to reach its own machine or network: loopback, private
ranges, a cloud's metadata service. Host names and decimal and hexadecimal forms are all checked by
the addresses they resolve to, at each connection; the connection uses the checked address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from sshwarma.common.shorten import shorten_text
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.reader import Hint, TextByReader

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

_NAT64: Final = (
    ipaddress.IPv6Network("64:ff9b::/96"),
    ipaddress.IPv6Network("64:ff9b:1::/48"),
)
_NO_SERVERS: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24",  # for protocols
        "192.88.99.0/24",  # relays of 6to4
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fec0::/10",  # networks of sites
    )
)
"""Networks without public servers, of which some versions of Python report a part as global."""

_HOST: Final = re.compile(r"[\w.-]+|\[?[0-9a-f:.]+(?:%\w+)?\]?", re.IGNORECASE)
"""A name, an IPv4 address, or an IPv6 address with or without a zone."""

_IPV4_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


RESOLVE_TIMEOUT_SECONDS: Final = 5.0

_ALLOW_PRIVATE_HINT: Final = TextByReader(
    "Allow it with --allow-private.", "Allow it with allow_private: true."
)

TOOLSET_PRIVATE_HINT: Final = (
    "The server of a toolset cannot be there: an owner can add it as a server of its own, by"
    " `mcp add` or in the settings, and allow it private addresses there."
)
"""The hint for a server that a toolset declares: an import allows no private addresses."""


class BlockedAddress(WorldError):
    """Connecting to this address is not allowed."""

    code = "blocked"


def check_url(url: str) -> SplitResult:
    """Parse the URL of a server and check its form.

    Raises:
        Invalid: if it is not http or https, has no host, or contains a user name or password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Invalid(f"Invalid URL {shorten_text(ascii(url)[1:-1])}: {error}.") from error
    is_host = parts.hostname is not None and _HOST.fullmatch(parts.hostname) is not None
    if parts.scheme not in ("http", "https") or not is_host or port == 0:
        raise Invalid(
            f"{shorten_text(ascii(url)[1:-1])} is not the URL of a server.",
            hint="Use http or https and a host, such as https://mcp.example.org/mcp",
        )
    if parts.username is not None or parts.password is not None:
        raise Invalid(
            "A URL must not contain a user name or password.",
            hint=TextByReader(
                "Add --header 'Authorization: Bearer ${NAME}' to read it from the environment.",
                'Give header: ["Authorization: Bearer ${NAME}"] to read it from the environment.',
            ),
        )
    return parts


async def resolve_host(host: str, port: int) -> list[str]:
    """Resolve a host name with the system resolver.

    Raises:
        OSError: if the name does not resolve.
    """
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


async def resolve_allowed(
    host: str,
    port: int,
    *,
    allow_private: bool,
    resolve: Resolver = resolve_host,
    private_hint: Hint = _ALLOW_PRIVATE_HINT,
) -> list[str]:
    """Resolve a host name and check that every address is allowed.

    `private_hint` says how a private address can be allowed.

    Raises:
        BlockedAddress: if one of the addresses is not allowed.
        OSError: if the name does not resolve.
    """
    addresses = await resolve(host.strip("[]"), port)
    for text in addresses:
        reason = refusal_reason(text, allow_private=allow_private)
        if reason:
            prefix = "" if text == host else f"{host} resolves to a blocked address: "
            raise BlockedAddress(
                f"{prefix}{text} is {reason}.",
                hint="" if reason == FORBIDDEN_REASON else private_hint,
            )
    if not addresses:
        raise OSError(f"{host} has no address")
    return addresses


async def check_address(url: str, *, allow_private: bool) -> None:
    """Refuse a URL that is never connected to, because a retry cannot help.

    Raises:
        Invalid: as `check_url`.
        BlockedAddress: with the address that the name resolves to.
    """
    parts = check_url(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
            await resolve_allowed(parts.hostname or "", port, allow_private=allow_private)
    except (OSError, TimeoutError):
        return  # the name is unknown now; it may be known later


FORBIDDEN_REASON: Final = "not allowed for servers"
PRIVATE_REASON: Final = "on this machine or in a private network"


def refusal_reason(text: str, *, allow_private: bool) -> str:
    """Return why an address is blocked, or an empty string if it is allowed."""
    try:
        outer = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return FORBIDDEN_REASON
    for address in (outer, *_embedded_ipv4(outer)):
        if address.is_multicast or address.is_link_local or address.is_unspecified:
            return FORBIDDEN_REASON  # clouds serve machine credentials at link-local addresses
        is_public = (
            address.is_global
            and not address.is_reserved
            and not any(address in network for network in _NO_SERVERS)
        )
        if not is_public and not allow_private:
            return PRIVATE_REASON
    return ""


def _embedded_ipv4(address: IpAddress) -> list[IpAddress]:
    """Return the IPv4 addresses that an IPv6 address embeds and so may reach."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    addresses: list[IpAddress] = []
    for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if inner is not None:
            addresses.append(inner)
    embeds = any(address in network for network in _NAT64) or (
        address in _IPV4_COMPATIBLE and int(address) > 1
    )
    if embeds:
        addresses.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return addresses
