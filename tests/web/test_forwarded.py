"""The address of a client behind a proxy."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive, Scope, Send

from sshwarma.settings import HttpSettings, ReloadableSettings
from sshwarma.web.forwarded import ForwardedAddress, find_client_address


async def pass_through(
    settings: ReloadableSettings, peer: str, headers: list[tuple[bytes, bytes]]
) -> Scope:
    """The request of a peer, as the program behind the proxy sees it."""
    seen: list[Scope] = []

    async def remember(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def receive() -> Message:
        raise NotImplementedError

    async def send(message: Message) -> None:
        raise NotImplementedError

    scope = {"type": "http", "scheme": "http", "client": (peer, 1), "headers": headers}
    await ForwardedAddress(remember, settings)(scope, receive, send)
    [request] = seen
    return request


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("", "127.0.0.1"),
        ("203.0.113.7", "203.0.113.7"),
        ("1.2.3.4, 203.0.113.7", "203.0.113.7"),
        ("203.0.113.7, 127.0.0.1", "203.0.113.7"),
        (" 2001:DB8::1 ", "2001:db8::1"),
        ("\x1b[31mred", "127.0.0.1"),
        ("Z" * 60_000, "127.0.0.1"),
        ("1.2.3.4, unknown", "127.0.0.1"),
        ("fe80::1%" + "Z" * 60_000, "127.0.0.1"),
        ("fe80::1%x 2026-11-24 ssh alice login", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_last_address_that_a_proxy_names_is_the_client(forwarded: str, address: str) -> None:
    assert find_client_address("127.0.0.1", forwarded) == address


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("10.0.0.5", "203.0.113.7", "203.0.113.7"),
        ("::ffff:10.0.0.5", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.5", "1.2.3.4, 203.0.113.7, 10.0.0.6", "203.0.113.7"),
        ("10.0.0.5", "10.0.0.6, 127.0.0.1", "10.0.0.5"),
        ("10.0.1.5", "203.0.113.7", "10.0.1.5"),
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
    ],
)
async def test_proxy_of_the_settings_is_believed_and_no_other(
    peer: str, forwarded: str, address: str
) -> None:
    settings = ReloadableSettings(http=HttpSettings(proxy_from=("10.0.0.0/24",)))
    headers = [(b"x-forwarded-for", forwarded.encode())]
    seen = await pass_through(settings, peer, headers)
    assert seen["client"] == (address, 1)


@pytest.mark.parametrize(
    ("peer", "header", "scheme"),
    [
        ("127.0.0.1", b"https", "https"),
        ("127.0.0.1", b"http, HTTPS", "https"),
        ("127.0.0.1", b"gopher", "http"),
        ("192.0.2.1", b"https", "http"),
    ],
)
async def test_scheme_that_a_proxy_names_is_that_of_redirects(
    peer: str, header: bytes, scheme: str
) -> None:
    """Else a client would follow one from TLS to plain text, with its token."""
    headers = [(b"x-forwarded-proto", header)]
    seen = await pass_through(ReloadableSettings(), peer, headers)
    assert seen["scheme"] == scheme
