"""Addresses that the server binds, and what keeps a start from listening there.

Addresses are resolved and bound as `serve` does it. Those that the running server has cannot be
bound beside it: there the kernel's table of listening sockets says whether others are in the way.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from sshwarma.settings import format_address, split_address

SOCKETS: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""The kernel's tables of TCP sockets, in this network namespace."""

LISTENING: Final = "0A"
"""The state of a socket that listens, in those tables."""

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class BoundAddress:
    """An address that a socket is bound to.

    Attributes:
        target: what `bind` takes.
        takes_ipv4: whether `::` has the port of all IPv4 addresses, too.
    """

    target: tuple[Any, ...]
    takes_ipv4: bool = False

    @property
    def ip(self) -> IpAddress:
        """The IP address; IPv4 also if it is written as IPv6."""
        # The kernel's table has no interfaces, so they are left out.
        ip = ipaddress.ip_address(str(self.target[0]).partition("%")[0])
        return getattr(ip, "ipv4_mapped", None) or ip

    @property
    def port(self) -> int:
        """The port; 0 is one that the system picks."""
        return int(self.target[1])

    def clashes_with(self, other: BoundAddress) -> bool:
        """Return whether nobody can listen on both."""
        has_same_port = self.port == other.port != 0
        return has_same_port and (self._contains(other) or other._contains(self))

    def _contains(self, other: BoundAddress) -> bool:
        ip, of_other = self.ip, other.ip
        is_of_family = ip.version == of_other.version
        is_of_family |= of_other.version == 4 and self.takes_ipv4
        return ip == of_other or (ip.is_unspecified and is_of_family)


def resolve_addresses(label: str, text: str) -> Sequence[BoundAddress]:
    """Return the addresses that `serve` binds.

    ssh has every address of a name, each with a socket of one family. http has one, and its `::`
    includes IPv4, unless the system says otherwise.

    Raises:
        OSError: if the host is unknown.
    """
    host, port = split_address(text)
    family = socket.AF_UNSPEC
    if label == "http":
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.getaddrinfo(
        host or None, port, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    if label == "ssh":
        return [BoundAddress(target) for *_, target in found]
    return [BoundAddress(found[0][-1], takes_ipv4=":" in host and _is_dual_stack())]


def _is_dual_stack() -> bool:
    """Return whether a socket at `::` has IPv4, too, as most systems want it."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        return not probe.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return False


def find_obstacle(addresses: Sequence[BoundAddress], own: Sequence[BoundAddress]) -> OSError | None:
    """Return why a restart cannot listen on all of the addresses, or None."""
    for address in addresses:
        is_own = any(address.port == one.port for one in own)
        # The host may still be of another machine.
        error = _try_to_bind(address, 0 if is_own else address.port)
        if error is not None:
            if error.errno == errno.EAFNOSUPPORT and len(addresses) > 1:
                continue  # as `serve` does on a machine without IPv6
            return error
        ours = {one.ip for one in own if one.port == address.port}
        for listening in _list_listening() if is_own else ():
            if listening.ip not in ours and listening.clashes_with(address):
                where = format_address(str(listening.ip), listening.port)
                return OSError(errno.EADDRINUSE, f"another process listens on {where}")
    return None


def _try_to_bind(address: BoundAddress, port: int) -> OSError | None:
    """Return why nobody can bind an address with this port, or None."""
    family = socket.AF_INET6 if ":" in address.target[0] else socket.AF_INET
    try:
        with contextlib.closing(socket.socket(family)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(
                    socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not address.takes_ipv4)
                )
            probe.bind((address.target[0], port, *address.target[2:]))
    except OSError as error:
        return error
    return None


def _list_listening() -> Iterator[BoundAddress]:
    """Yield where processes listen; nothing on systems without /proc.

    The table does not say whether a socket at `::` has IPv4, too. One that is beside a socket of
    ours with the same port has not: either of them could not listen.
    """
    for table in SOCKETS:
        try:
            lines = os.fsdecode(table.read_bytes()).splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_ = line.split()
            if state == LISTENING:
                words, _, port = local.partition(":")
                yield BoundAddress((str(_parse_ip(words)), int(port, 16)))


def _parse_ip(words: str) -> IpAddress:
    """Return an address of the table: words of 32 bits in the machine's order."""
    parts = (int(words[start : start + 8], 16) for start in range(0, len(words), 8))
    return ipaddress.ip_address(b"".join(part.to_bytes(4, sys.byteorder) for part in parts))
