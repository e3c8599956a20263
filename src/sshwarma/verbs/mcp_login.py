"""Signing in to MCP servers: what a person opens, and what they bring back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from sshwarma.common.limits import SIGN_IN_TIMEOUT_SECONDS
from sshwarma.mcp.client.hub import SIGN_IN_CONNECT_SECONDS, Hub
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.views import draw_columns, view
from sshwarma.world.caller import Caller

SIGN_IN_MINUTES: Final = int(SIGN_IN_TIMEOUT_SECONDS // 60)


@dataclass(frozen=True, slots=True)
class SignInInstructions:
    """The `address` to open to sign in: its `host`, the `issuer`, the requested `scope`, and the
    `redirect` that the browser comes back to."""

    name: str
    host: str
    issuer: str
    scope: str
    address: str
    redirect: str
    minutes: int


@view(SignInInstructions)
def draw_sign_in(result: SignInInstructions) -> Block:
    asks = urlsplit(result.issuer).netloc
    facts = [
        ("At:", result.host),
        ("For:", asks if asks != result.host else ""),
        ("Rights:", result.scope),
    ]
    return block(
        line(("heading", f"Sign in to {result.name} in your browser:")),
        *draw_columns((("dim", title), fact) for title, fact in facts if fact),
        line(),
        # Without indent, so that an address copied from several rows is one address to a browser.
        line(("link", result.address)),
        line(),
        line(f"It comes back to {urlsplit(result.redirect).netloc}. If that page cannot be shown,"),
        line("copy its address from the browser and give it here:"),
        line("  ", ("verb", f"/mcp login {result.name} ADDRESS"), hang=4),
        line(("dim", f"Valid for {result.minutes} minutes.")),
    )


async def begin_sign_in(caller: Caller, hub: Hub, name: str) -> SignInInstructions:
    """Begin to sign in to a server."""
    page = await hub.oauth_logins.login(caller, await hub.find(name))
    return SignInInstructions(
        name=name,
        host=page.host,
        issuer=page.issuer,
        scope=page.scope,
        address=page.url,
        redirect=page.redirect,
        minutes=SIGN_IN_MINUTES,
    )


async def submit_callback_url(hub: Hub, name: str, address: str) -> bool:
    """Take the address that somebody's browser came back to. Returns whether the sign-in is done
    already.

    Raises:
        WorldError: if it is not the right one, or the sign-in fails.
    """
    server = await hub.find(name)
    return await hub.oauth_logins.submit_address(server, address, 2 * SIGN_IN_CONNECT_SECONDS)
