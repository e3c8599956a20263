"""The page of a renderer `frame`: another page, embedded.

An embedded page runs in the browser of a reader, beside the other pages there. So only
pages of the machine itself are embedded, and those of hosts that the settings name.
"""

from __future__ import annotations

import html
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import urlsplit

from sshwarma.settings.addresses import is_loopback

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; frame-src {origin}">
<meta name="referrer" content="no-referrer">
<title>{url}</title>
<style>
body {{ margin: 0; height: 100vh; display: flex; flex-direction: column; font: 14px sans-serif }}
p {{ margin: 0; padding: 6px 10px; overflow-wrap: anywhere }}
iframe {{ flex: 1; border: 0; border-top: 1px solid }}
</style>
<p><a href="{url}" rel="noopener noreferrer" target="_blank">{url}</a></p>
<iframe src="{url}" title="{url}" sandbox="allow-scripts allow-forms"
 referrerpolicy="no-referrer" credentialless></iframe>
</html>
"""


def find_frame_url(config: dict[str, Any]) -> str | None:
    """Return the address that a resolved `frame` shows; None if it has none.

    A port is one of the server's machine.
    """
    if isinstance(url := config.get("url"), str):
        return url
    port = config.get("port")
    return f"http://localhost:{port}/" if isinstance(port, int) else None


def find_embedding_problem(url: str, hosts: Collection[str]) -> str:
    """Return why a page may not be embedded, as a sentence; "" if it may.

    Args:
        url: its address, checked by `find_url_problem`.
        hosts: host names, with a port or without one, whose pages may be embedded besides those
            of loopback.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or host.endswith(".localhost"):
        return ""
    named = f"[{host}]" if ":" in host else host
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    if {named, f"{named}:{port}"} & {allowed.lower() for allowed in hosts}:
        return ""
    return f"Pages of {named} are not embedded: http.frame_hosts does not name it."


def make_frame_page(url: str) -> bytes:
    """Return a page that embeds another one.

    What it redirects to at a third host is not shown. The embedded page gets no cookies, opens no
    windows, and does not see where it is embedded.
    """
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    return _PAGE.format(origin=html.escape(origin), url=html.escape(url)).encode()
