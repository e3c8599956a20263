"""Pages as answers: the frames of the console, their headers, and its own files."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from sshwarma.terminal.escape import escape_lines
from sshwarma.terminal.html import render_html
from sshwarma.terminal.text import Block, block
from sshwarma.verbs.say import SentMessage, sender_note_lines
from sshwarma.verbs.views import draw_result
from sshwarma.world.errors import NotFound

FOLDER: Final = Path(__file__).resolve().parent
STATIC: Final = FOLDER / "static"
STATIC_TYPES: Final = {".css": "text/css", ".js": "text/javascript"}

_FOREVER: Final = "public, max-age=31536000, immutable"

PART_TYPE: Final = "text/html;part"
"""What a script accepts that puts an answer into its page."""

_POLICY: Final = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:",
        "font-src 'self'", "connect-src 'self'", "frame-src 'self'", "form-action 'self'",
        "base-uri 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
        "trusted-types sshwarma",
    )
)  # fmt: skip
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not no-referrer: browsers then send `Origin: null` with forms.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every page."""


PAGES: Final = (
    ("/messages", "Messages"),
    ("/tools", "Tools"),
    ("/toolsets", "Toolsets"),
    ("/servers", "Servers"),
    ("/map", "Map"),
    ("/figures", "Figures"),
    ("/term", "Terminal"),
    ("/verbs", "Verbs"),
    ("/system", "System"),
)
"""Paths and names of the pages that every page leads to."""

_PARENTS: Final = {"/verb": "/verbs"}
"""Pages that belong to one of PAGES, though their paths do not begin with its path."""


@lru_cache(maxsize=1)
def static_version() -> str:
    """Return what changes when a file of the console does: the folder of its address."""
    digest = hashlib.sha256()
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in STATIC_TYPES:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@lru_cache(maxsize=1)
def _static_names() -> frozenset[str]:
    found = (path for path in STATIC.rglob("*") if path.suffix in STATIC_TYPES)
    return frozenset(path.relative_to(STATIC).as_posix() for path in found)


def send_static(version: str, name: str) -> Response:
    """Send a file of the console, which never changes under its address.

    Raises:
        NotFound: if no file has that name.
    """
    path = STATIC / name
    if name not in _static_names():
        raise NotFound("There is nothing at this path.")
    is_this = version == static_version()  # a page from before an upgrade names another
    headers = {"Cache-Control": _FOREVER if is_this else "no-cache"}
    return FileResponse(path, media_type=STATIC_TYPES[path.suffix], headers=headers)


class Frames:
    """Templates around what verbs return.

    What a template prints is escaped, with the same characters made visible as on a terminal.
    """

    def __init__(self) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_make_visible,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["exact"] = _escape_exactly
        self._templates.filters["when"] = _format_time
        self._templates.filters["room_path"] = room_path
        self._templates.filters["message_path"] = message_path
        self._templates.filters["within"] = path_within

    def render(self, frame: str, **values: Any) -> Markup:
        """Return a template with values in it."""
        static = f"/static/{static_version()}"
        common = {
            "static": static, "pages": PAGES, "who": "", "title": "sshwarma", "in_room": "",
            "current": "",
        }  # fmt: skip
        text = self._templates.get_template(frame).render(**common | values)
        return Markup(text)  # noqa: S704 - the templates escape

    def show(self, frame: str, status: int = 200, **values: Any) -> Response:
        """Return a page: a template with values in it."""
        return HTMLResponse(self.render(frame, **values), status_code=status)


def render_block(drawn: Block) -> Markup:
    """Return a block as HTML that a template prints as it is."""
    return Markup(render_html(drawn))  # noqa: S704 - the one place that escapes text of others


def render_result(result: object) -> Markup:
    """Return the result of a verb as HTML.

    Takes long for megabytes: call it in a thread.
    """
    if isinstance(result, SentMessage):  # the log has it
        return render_block(block(*sender_note_lines(result)))
    return render_block(draw_result(result))


def room_path(name: str, *parts: str) -> str:
    """Return the path of a room's page, or of a panel of it."""
    return "/".join(["/room", *(quote(part, safe="/") for part in (name, *parts))])


def message_path(name: str) -> str:
    """Return the path of the page with the private messages with somebody."""
    return f"/messages/{quote(name, safe='')}"


def path_within(path: str, room: str) -> str:
    """Return the path of a page that is asked for in a room; "" for one's own room."""
    if not room:
        return path
    return f"{path}{'&' if '?' in path else '?'}in={quote(room, safe='')}"


def find_page(path: str) -> str:
    """Return the path of the page of PAGES to which a path belongs, or ""."""
    first = "/" + path.split("/")[1]
    first = _PARENTS.get(first, first)
    return first if any(first == page for page, _ in PAGES) else ""


def wants_part(request: Request) -> bool:
    """Return whether a script asks, which puts the answer into its page."""
    return request.headers.get("accept", "").startswith(PART_TYPE)


def _escape_exactly(value: Any) -> Markup:
    """Return a value for a field, with the line ends that a parser would change."""
    return Markup(str(escape(value)).replace("\r", "&#13;"))  # noqa: S704 - it is escaped


def _format_time(iso: str) -> str:
    """Return a time as people read it, in UTC."""
    return f"{iso[:10]} {iso[11:19]} UTC"


def _make_visible(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_lines(value)
    return value
