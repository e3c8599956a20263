"""Addresses that belong to one client, for limits of an address."""

from __future__ import annotations

import ipaddress


def group_address(address: str) -> str:
    """Return what an address is counted by: itself, or the /64 of an IPv6 address.

    A client of IPv6 usually has a whole /64. Text that is no address stands for itself.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    if isinstance(ip, ipaddress.IPv6Address) and not ip.is_loopback:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip)
