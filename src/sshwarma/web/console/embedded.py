"""Pages of toolsets and of others in a frame: what these may do."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from sshwarma.settings import is_loopback

ARTIFACT_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline';"
    " style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data: blob:;"
    " connect-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self';"
    " require-trusted-types-for 'script'; trusted-types default"
)
"""What a page of a toolset may do: run its own scripts, in an origin that no other page has."""


def find_frame_policy(url: str) -> str:
    """Return the policy of a page of a toolset, or of one that shows that address."""
    if not url:
        return ARTIFACT_POLICY
    parts = urlsplit(url)
    # In a sandbox: what it embeds has another site above it, and is not sent our cookie.
    return (
        "sandbox allow-scripts allow-forms allow-popups; default-src 'none';"
        f" style-src 'unsafe-inline'; frame-src {parts.scheme}://{parts.netloc};"
        " form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
    )


def find_own_frame_problem(url: str, own_host: str, own_port: int | None) -> str:
    """Return why a page is not embedded in the console, as a sentence; "" if it is.

    Browsers send cookies to all ports of a host, so that a page at another port of the console's
    own name would get the one that signs in.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) and parts.port == own_port:
        return "It is not shown here: it is this console itself."
    if _normalize_host(host) != _normalize_host(own_host):
        return ""
    return (
        f"It is not shown here: {own_host} is also the name of this console, and browsers would"
        " send it the cookie that signs you in. Open the console under another name of the machine."
    )


def _normalize_host(host: str) -> str:
    """Return a name in lower case, and an address in its shortest form."""
    try:
        return ip_address(host).compressed
    except ValueError:
        return host.lower()
