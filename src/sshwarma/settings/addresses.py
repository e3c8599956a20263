"""Addresses in settings: `HOST:PORT`, URLs, loopback."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from typing_extensions import TypeIs

from sshwarma.common.secret_detection import looks_like_key
from sshwarma.common.validation_text import format_given

MAX_PORT: Final = 65_535
PORT_RULE: Final = f"1 to {MAX_PORT}"
"""The numbers of ports to which one can connect, in words."""

SSH_PORT: Final = 22
"""The port that ssh uses by itself."""

DATABASE_SCHEMES: Final = ("postgresql", "postgres")
"""The schemes of addresses of databases on a server."""

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9.\-\[\]:]{1,253}")


def split_address(value: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[V6]:PORT`. Port 0 asks for a free one.

    Raises:
        ValueError: with the reason.
    """
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal():
        raise ValueError(f"must be HOST:PORT, such as 127.0.0.1:2222 (got {format_given(value)})")
    if int(port) > MAX_PORT:
        raise ValueError(f"the port must be at most {MAX_PORT} (got {port})")
    return host.strip("[]"), int(port)


def is_port(value: object) -> TypeIs[int]:
    """Return whether a value is the number of a port to which one can connect."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_PORT


def format_address(host: str, port: int) -> str:
    """Return HOST:PORT as `split_address` reads it, an IPv6 host in brackets.

    Without a host, which listens on every address, it is 0.0.0.0.
    """
    return f"[{host}]:{port}" if ":" in host else f"{host or '0.0.0.0'}:{port}"  # noqa: S104


def find_local_host(host: str) -> str:
    """Return a host at which local programs reach a server on `host`."""
    try:
        is_wildcard = ipaddress.ip_address(host or "0.0.0.0").is_unspecified  # noqa: S104
    except ValueError:
        return host
    if not is_wildcard:
        return host
    return "::1" if ":" in host else "127.0.0.1"


def make_register_command(listen: str, public_url: str, code: str) -> str:
    """Return the command with which a newcomer uses a code.

    Its host is that of the public URL, or the address of the server; HOST if it listens on all
    addresses, because nobody knows what newcomers call it.

    Args:
        listen: HOST:PORT of the ssh server; "" if it is not known.
        public_url: URL under which the HTTP server is reached; "" for none.
        code: of the invite.
    """
    listening, port = split_address(listen) if listen else ("", SSH_PORT)
    host = urlsplit(public_url).hostname if public_url else listening
    if not host or find_local_host(host) != host:
        host = "HOST"
    option = "" if port in (0, SSH_PORT) else f"-p {port} "  # 0: a free one, which nobody knows
    return f"ssh {option}NAME@{host} register {code}"


def check_address(value: str) -> str:
    """Return a HOST:PORT address.

    Raises:
        ValueError: if it is not one.
    """
    split_address(value)
    return value


def check_address_or_off(value: str) -> str:
    """Return a HOST:PORT address or `off`.

    Raises:
        ValueError: if it is neither.
    """
    return value if value == "off" else check_address(value)


def check_host_name(value: str) -> str:
    """Return a host name or an address, with or without a port.

    Raises:
        ValueError: if it is neither.
    """
    if not _HOST_NAME.fullmatch(value):
        raise ValueError(
            f"must be a host name, such as world.example.org (got {format_given(value)})"
        )
    return value


def check_network(value: str) -> str:
    """Return an address or a network of addresses in its usual form.

    Raises:
        ValueError: if it is neither, or has all addresses.
    """
    try:
        network = ipaddress.ip_network(value)
    except ValueError as error:
        raise ValueError(
            "must be an address or a network, such as 10.0.0.5 or 10.0.0.0/24"
            f" (got {format_given(value)}{_suggest_network(value)})"
        ) from error
    if not network.prefixlen:
        raise ValueError(f"must not be every address: anybody could name any (got {value})")
    return str(network)


def _suggest_network(value: str) -> str:
    """Return what a network with bits beyond its length may mean; "" without one."""
    try:
        return f"; its network is {ipaddress.ip_network(value, strict=False)}"
    except ValueError:
        return ""


def check_base_url(value: str) -> str:
    """Return the URL of this server without a slash at the end; it may be empty.

    Raises:
        ValueError: if it is not a web address.
    """
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("must be a URL, such as https://world.example.org")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("must be a URL without a user, query or fragment")
    return value.rstrip("/")


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_web_url(value: str) -> str:
    """Return the URL of a model provider.

    Raises:
        ValueError: if it is not a web address, or contains a key.
    """
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL, such as http://127.0.0.1:8080/v1")
    if parts.username or parts.password:
        raise ValueError("a URL must not contain a key: use key_env or key_file")
    if looks_like_key(f"{parts.path}?{parts.query}#{parts.fragment}"):
        raise ValueError("this seems to contain a key: use key_env or key_file")
    return value


def check_database_url(value: str) -> str:
    """Return the address of a PostgreSQL database, or "".

    Raises:
        ValueError: if it is no such address, or contains a password.
    """
    if not value:
        return value
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in DATABASE_SCHEMES or not parts.path.strip("/"):
        raise ValueError("must be a URL, such as postgresql://USER@HOST:5432/NAME")
    if parts.password is not None or "password" in parts.query.lower():
        raise ValueError(
            "a URL must not contain a password: use the variable PGPASSWORD, or a password file"
            " (PGPASSFILE, ~/.pgpass)"
        )
    return value
