"""The header of the PROXY protocol, with which a balancer names its client.

https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt. Versions 1 and 2. It uses no
socket: bytes in, a header out. What follows the addresses of version 2 (its TLVs) is skipped.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from sshwarma.common.networks import parse_address
from sshwarma.common.units import KIB

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
"""The first bytes of version 2, which no other protocol begins with."""

MAX_LINE_BYTES: Final = 107
"""Maximum length of version 1, with its line end, by the specification."""

MAX_HEADER_BYTES: Final = 4 * KIB
"""Maximum length of version 2: addresses have at most 216 bytes; TLVs of clouds have hundreds."""

MAX_PORT: Final = 65_535

_FIXED: Final = struct.Struct("!12sBBH")  # signature, version and command, family, length
_LOCAL, _PROXY = 0x20, 0x21
_ADDRESSES: Final[dict[int, tuple[int, type[IPv4Address | IPv6Address]]]] = {
    0x11: (4, IPv4Address),
    0x21: (16, IPv6Address),
}
"""Length and type of an address of TCP over IPv4 and IPv6."""

_FAMILIES: Final = {b"TCP4": 0x11, b"TCP6": 0x21}
"""Their names in version 1."""

_NAMELESS: Final = {0x00: 0, 0x31: 216}
"""Families without an address that limits could count: unspecified, and unix, with their length."""

_NUMBER = rb"(0|[1-9][0-9]{0,4})"
_LINE: Final = re.compile(
    rb"PROXY (?:UNKNOWN(?: .*)?|(TCP[46]) ([0-9A-Fa-f.:]+) ([0-9A-Fa-f.:]+) %b %b)"
    % (_NUMBER, _NUMBER)
)


class MalformedHeaderError(Exception):
    """The bytes are no header; the message says why."""


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """A whole header.

    Attributes:
        size: its length in bytes; what follows is from the client.
        source: address and port of the client; None if the balancer names none.
        is_local: whether the balancer connects for itself, as for a health check.
    """

    size: int
    source: tuple[str, int] | None = None
    is_local: bool = False


def parse_header(received: bytes) -> ProxyHeader | None:
    """Return the header at the start of some bytes; None if more must come.

    Raises:
        MalformedHeaderError: if they begin with something else.
    """
    if received[: len(SIGNATURE)] == SIGNATURE[: len(received)]:
        return _parse_version_2(received)
    if received[:6] == b"PROXY "[: len(received)]:
        return _parse_version_1(received)
    raise MalformedHeaderError("it begins with something else")


def _parse_version_1(received: bytes) -> ProxyHeader | None:
    line, end, _ = received[:MAX_LINE_BYTES].partition(b"\r\n")
    if not end:
        if len(received) >= MAX_LINE_BYTES:
            raise MalformedHeaderError(f"its line is longer than {MAX_LINE_BYTES} bytes")
        return None
    match = _LINE.fullmatch(line)
    if match is None:
        raise MalformedHeaderError("its line is not one of version 1")
    size = len(line) + len(end)
    if match[1] is None:
        return ProxyHeader(size)
    _, kind = _ADDRESSES[_FAMILIES[match[1]]]
    try:
        source, _ = (kind(one.decode("ascii")) for one in match.group(2, 3))
    except ValueError:
        raise MalformedHeaderError("its address is not one") from None
    port, to_port = (int(one) for one in match.group(4, 5))
    if max(port, to_port) > MAX_PORT:
        raise MalformedHeaderError("its port is not one")
    return ProxyHeader(size, (_write_address(source), port))


def _parse_version_2(received: bytes) -> ProxyHeader | None:
    if len(received) < _FIXED.size:
        return None
    _, command, family, length = _FIXED.unpack_from(received)
    size = _FIXED.size + length
    if size > MAX_HEADER_BYTES:
        raise MalformedHeaderError(f"it is longer than {MAX_HEADER_BYTES} bytes")
    if command not in (_LOCAL, _PROXY):
        raise MalformedHeaderError("its version or its command is unknown")
    if len(received) < size:
        return None
    if command == _LOCAL:  # its family and its addresses are to be ignored
        return ProxyHeader(size, is_local=True)
    if family in _NAMELESS:
        return ProxyHeader(_check_length(length, _NAMELESS[family], size))
    if family not in _ADDRESSES:
        raise MalformedHeaderError("its family is unknown, or not that of a stream")
    width, kind = _ADDRESSES[family]
    _check_length(length, 2 * width + 4, size)
    start = _FIXED.size
    source = kind(received[start : start + width])
    (port,) = struct.unpack_from("!H", received, start + 2 * width)
    return ProxyHeader(size, (_write_address(source), port))


def _check_length(length: int, least: int, size: int) -> int:
    """Return the size of a header whose addresses are whole."""
    if length < least:
        raise MalformedHeaderError("its addresses are cut off")
    return size


def _write_address(address: IPv4Address | IPv6Address) -> str:
    """Return an address as limits and the audit have it: IPv4 in IPv6 is IPv4."""
    return str(parse_address(str(address)) or address)
