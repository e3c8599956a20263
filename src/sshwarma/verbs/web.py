"""The verbs of `/web`: the console in a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from sshwarma.common.limits import SIGN_IN_LINK_SECONDS
from sshwarma.services import services_of
from sshwarma.settings import is_loopback
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import (
    SHOWN_ID_CHARACTERS,
    Confirmation,
    draw_columns,
    format_clock,
    view,
)
from sshwarma.world import browser_sessions
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Unavailable


@dataclass(frozen=True, slots=True)
class ConsoleLink:
    """A link that signs in one browser.

    Attributes:
        url: the link.
        seconds: how long it does so.
        forward: the command that must run where the browser is; "" if none must.
    """

    url: str
    seconds: int
    forward: str = ""


@view(ConsoleLink)
def draw_console_link(link: ConsoleLink) -> Block:
    """Draw a link that signs in a browser."""
    about = f"It signs in one browser as you, within {link.seconds} seconds."
    forward = f"Where the browser is, this must run meanwhile: {link.forward}"
    return block(
        line(("link", link.url)),
        line(("dim", about)),
        *([line(("dim", forward))] if link.forward else ()),
    )


_BROWSERS: Final = re.compile(r"(Edg|OPR|Firefox|HeadlessChrome|Chrome|Version)/(\d+)")
_SYSTEMS: Final = re.compile(r"Android|iPhone|iPad|Windows|Mac OS X|CrOS|Linux(?!; Android)")
_NAMES: Final = {"Edg": "Edge", "OPR": "Opera", "HeadlessChrome": "Chrome", "Version": "Safari"}


def name_browser(user_agent: str) -> str:
    """Return what a browser says it is, in short: `Firefox 150 on Linux`.

    All name several, for sites that look for one: the most special of them is meant.
    """
    found = {match[1]: match[2] for match in _BROWSERS.finditer(user_agent)}
    program = next((name for name in (*_NAMES, *found) if name in found), "")
    system = _SYSTEMS.search(user_agent)
    if not program or system is None:
        return user_agent
    return f"{_NAMES.get(program, program)} {found[program]} on {system[0]}"


@dataclass(frozen=True, slots=True)
class BrowserItem:
    """A browser that is signed in. Times are in milliseconds since 1970.

    Attributes:
        id: by which it is ended.
        browser: what it says it is.
        address: from which it was signed in.
        last_used_at: its last request, recorded once in LAST_USE_MINUTES; None before that.
    """

    id: str
    browser: str
    address: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None


@dataclass(frozen=True, slots=True)
class BrowserList:
    """The browsers that are signed in as the caller."""

    browsers: tuple[BrowserItem, ...]


@view(BrowserList)
def draw_browser_list(result: BrowserList) -> Block:
    """Draw the browsers that are signed in."""
    if not result.browsers:
        return block(line("No browser is signed in. ", ("verb", "/web"), " prints a link."))
    return block(
        line(("heading", "Browsers that are signed in as you:")),
        *draw_columns(
            (
                ("mark", item.id[:SHOWN_ID_CHARACTERS]),
                ("time", format_clock(item.created_at)),
                ("time", f"used {format_clock(item.last_used_at or item.created_at)}"),
                item.address,
                item.browser,
            )
            for item in result.browsers
        ),
    )


async def _read_own(caller: Caller) -> list[browser_sessions.BrowserSession]:
    return await caller.world.store.read(
        lambda conn: browser_sessions.read_sessions(conn, caller.agent.id)
    )


async def complete_browsers(request: CompletionRequest) -> list[Option]:
    """List the ids of the caller's browsers, with what they say they are."""
    return [
        (one.token.id, name_browser(one.token.label)) for one in await _read_own(request.caller)
    ]


BrowserId: TypeAlias = Annotated[str, Arg(complete=complete_browsers)]
"""A browser by its id, or the start of it."""

web = group(
    "web",
    section="Yourself",
    default="link",
    doc="""Open the console in a browser, and sign browsers out.

    What a browser may do ends with the key with which its link was made.
    """,
)


@web.verb("link", tool=False, ssh_only=True, examples=("/web",), scope=TokenScope.BUILD)
async def make_link(caller: Caller) -> ConsoleLink:
    """Print a link that signs in one browser as you.

    It works once, within {SIGN_IN_LINK_SECONDS}.
    """
    services = services_of(caller)
    url, forward = services.http.url, ""
    if not url:
        raise Unavailable("This server has no console: its HTTP server is off.")
    if not services.settings.http.public_url:
        port = urlsplit(url).port
        url = f"http://127.0.0.1:{port}"
        if not is_loopback(caller.origin.address):
            forward = f"ssh -N -L {port}:console:80 HOST"
    secret = caller.world.sign_in_links.make(caller.agent.id, caller.origin.fingerprint)
    return ConsoleLink(f"{url}/in#{secret}", SIGN_IN_LINK_SECONDS, forward)


@web.verb(
    "list",
    tool=False,
    ssh_only=True,
    in_console=True,
    examples=("/web list",),
    scope=TokenScope.BUILD,
)
async def list_browsers(caller: Caller) -> BrowserList:
    """List the browsers that are signed in as you."""
    return BrowserList(
        tuple(
            BrowserItem(
                id=one.token.id,
                browser=name_browser(one.token.label),
                address=one.address,
                created_at=one.token.created_at,
                expires_at=one.token.expires_at,
                last_used_at=one.token.last_used_at,
            )
            for one in await _read_own(caller)
        )
    )


@web.verb(
    "end",
    tool=False,
    ssh_only=True,
    in_console=True,
    examples=("/web end 0199",),
    scope=TokenScope.BUILD,
)
async def end_browser(caller: Caller, browser: BrowserId) -> Confirmation:
    """Sign a browser of yours out at once.

    Args:
        browser: its id, or the start of it.
    """
    ended = await caller.change(
        lambda tx: browser_sessions.end_session(tx, browser, caller.agent.id)
    )
    return Confirmation(f"Signed out {name_browser(ended.label) or ended.id}.")
