"""The header of the PROXY protocol: whole, cut anywhere, and malformed."""

from __future__ import annotations

import contextlib
import socket
import struct
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.ssh.transport.proxy_header import (
    MAX_HEADER_BYTES,
    MAX_LINE_BYTES,
    SIGNATURE,
    MalformedHeaderError,
    ProxyHeader,
    parse_header,
)

PORTS = st.integers(0, 65_535)
PROXY, LOCAL = 0x21, 0x20
TCP4, TCP6, UNIX, UNSPECIFIED = 0x11, 0x21, 0x31, 0x00


def version_2(command: int, family: int, payload: bytes) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(payload)) + payload


def tcp(source: IPv4Address | IPv6Address, port: int, tlvs: bytes = b"") -> bytes:
    """A header as HAProxy sends it, to port 22 of an address of the same kind."""
    family = TCP4 if source.version == 4 else TCP6
    addresses = source.packed + bytes(len(source.packed))
    return version_2(PROXY, family, addresses + struct.pack("!HH", port, 22) + tlvs)


def is_mapped(source: IPv4Address | IPv6Address) -> bool:
    return isinstance(source, IPv6Address) and source.ipv4_mapped is not None


SOURCES = st.ip_addresses().filter(lambda source: not is_mapped(source))


@given(source=SOURCES, port=PORTS, tlvs=st.binary(max_size=300), rest=st.binary(max_size=50))
def test_version_2_names_its_client_at_every_cut(
    source: IPv4Address | IPv6Address, port: int, tlvs: bytes, rest: bytes
) -> None:
    header = tcp(source, port, tlvs)
    assert all(parse_header(header[:size]) is None for size in range(len(header)))
    assert parse_header(header + rest) == ProxyHeader(len(header), (str(source), port))


@given(source=SOURCES, ports=st.tuples(PORTS, PORTS), rest=st.binary(max_size=50))
def test_version_1_names_its_client_at_every_cut(
    source: IPv4Address | IPv6Address, ports: tuple[int, int], rest: bytes
) -> None:
    words = f"PROXY TCP{source.version} {source} {source} {ports[0]} {ports[1]}\r\n"
    header = words.encode()
    assert all(parse_header(header[:size]) is None for size in range(len(header)))
    assert parse_header(header + rest) == ProxyHeader(len(header), (str(source), ports[0]))


@given(received=st.binary(max_size=200), start=st.sampled_from([b"", b"PROXY ", SIGNATURE]))
def test_any_bytes_are_a_header_or_refused(received: bytes, start: bytes) -> None:
    """And whatever has come stays bounded: more is asked for only below the maximum."""
    with contextlib.suppress(MalformedHeaderError):
        header = parse_header(start + received)
        assert header is None or header.size <= MAX_HEADER_BYTES


@given(command=st.integers(0, 255), family=st.integers(0, 255), size=st.integers(0, 300))
def test_header_without_an_address_that_counts_names_nobody(
    command: int, family: int, size: int
) -> None:
    try:
        header = parse_header(version_2(command, family, bytes(size)))
    except MalformedHeaderError:
        return
    assert header is not None and command in (PROXY, LOCAL)
    assert header.is_local == (command == LOCAL)
    named = command == PROXY and family in (TCP4, TCP6)
    assert (header.source is not None) == named


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY UNKNOWN\r\n",
        b"PROXY UNKNOWN whatever stands here\r\n",
        version_2(PROXY, UNSPECIFIED, b""),
        version_2(PROXY, UNSPECIFIED, b"\x04\x00\x01x"),
        version_2(PROXY, UNIX, b"/run/a".ljust(216, b"\0")),
    ],
)
def test_unknown_client_has_no_address(header: bytes) -> None:
    assert parse_header(header + b"SSH-2.0-x\r\n") == ProxyHeader(len(header))


@pytest.mark.parametrize("family", [UNSPECIFIED, TCP4, 0x7F])
def test_check_of_a_balancer_is_local(family: int) -> None:
    header = version_2(LOCAL, family, b"\x01\x02\x03")
    assert parse_header(header) == ProxyHeader(len(header), is_local=True)


def test_address_of_ipv4_in_ipv6_is_of_ipv4() -> None:
    source = IPv6Address("::ffff:192.0.2.7")
    header = parse_header(tcp(source, 9))
    assert header is not None and header.source == ("192.0.2.7", 9)


@pytest.mark.parametrize(
    "received",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"PROXZ",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        b"PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        b"PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        b"proxy tcp4 192.0.2.1 192.0.2.2 1 2\r\n",
        b"PROXY UNKNOWNS\r\n",
        b"PROXY UNKNOWN a\nb\r\n",
        b"PROXY UNKNOWN " + b"x" * MAX_LINE_BYTES,
        SIGNATURE[:5] + b"x",
        version_2(0x11, TCP4, bytes(12)),
        version_2(0x22, TCP4, bytes(12)),
        version_2(PROXY, TCP4, bytes(11)),
        version_2(PROXY, TCP6, bytes(35)),
        version_2(PROXY, UNIX, bytes(215)),
        version_2(PROXY, 0x12, bytes(12)),
        version_2(PROXY, 0x41, bytes(12)),
        SIGNATURE + struct.pack("!BBH", PROXY, TCP4, MAX_HEADER_BYTES),
    ],
)
def test_malformed_header_is_refused(received: bytes) -> None:
    with pytest.raises(MalformedHeaderError):
        parse_header(received)


def test_address_is_written_as_the_system_writes_it() -> None:
    packed = socket.inet_pton(socket.AF_INET6, "2001:db8::a")
    header = parse_header(tcp(IPv6Address(packed), 22))
    assert header is not None and header.source == ("2001:db8::a", 22)
