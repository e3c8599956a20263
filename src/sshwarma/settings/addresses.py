"""Addresses in settings: `HOST:PORT`, URLs, loopback."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from sshwarma.common.secret_detection import looks_like_key


def split_address(value: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[V6]:PORT`. Port 0 asks for a free one.

    Raises:
        ValueError: with the reason.
    """
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{value!r} is not HOST:PORT, such as 127.0.0.1:2222")
    return host.strip("[]"), int(port)


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


def check_base_url(value: str) -> str:
    """Return the URL of this server without a slash at the end; it may be empty.

    Raises:
        ValueError: if it is not a web address.
    """
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("not a URL such as https://world.example.org")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("the URL must not have a user, query or fragment")
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
        raise ValueError("not a URL such as http://127.0.0.1:8080/v1")
    if parts.username or parts.password:
        raise ValueError("a URL must not contain a key: use key_env or key_file")
    if looks_like_key(f"{parts.path}?{parts.query}#{parts.fragment}"):
        raise ValueError("this seems to contain a key: use key_env or key_file")
    return value
