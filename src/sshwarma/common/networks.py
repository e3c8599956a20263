"""Networks that settings list, and whether an address is in one of them."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_KNOWN_LISTS = 64
"""Lists of networks that are kept parsed: one of each setting, and those of tests."""


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address without its zone; None if the text is not one.

    One of IPv4 that a socket of IPv6 shows (`::ffff:192.0.2.1`) is that of IPv4.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_in_networks(text: str, networks: Sequence[str]) -> bool:
    """Return whether an address is in one of some networks, which are valid."""
    if not networks:
        return False
    address = parse_address(text)
    return address is not None and any(address in one for one in _parse_networks(tuple(networks)))


@lru_cache(MAX_KNOWN_LISTS)
def _parse_networks(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(one) for one in networks)
