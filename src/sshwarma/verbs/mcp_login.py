"""OAuth sign-in at MCP servers: the address to open, and the callback address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from sshwarma.common.limits import SIGN_IN_TIMEOUT_SECONDS
from sshwarma.mcp.client.hub import Hub
from sshwarma.mcp.client.server_pool import SIGN_IN_CONNECT_SECONDS
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.views import draw_columns, view_for_reader
from sshwarma.world.caller import Caller
from sshwarma.world.reader import Reader

SIGN_IN_MINUTES: Final = int(SIGN_IN_TIMEOUT_SECONDS // 60)


@dataclass(frozen=True, slots=True)
class SignInInstructions:
    """The instructions to sign in at a server.

    Attributes:
        host: host of the server.
        issuer: address of the authorization server.
        scope: requested scope; "" if none.
        address: the address to open in a browser.
        redirect: the address that the browser comes back to.
        minutes: how long the address is valid.
    """

    name: str
    host: str
    issuer: str
    scope: str
    address: str
    redirect: str
    minutes: int


@view_for_reader(SignInInstructions)
def draw_sign_in_instructions(result: SignInInstructions, reader: Reader) -> Block:
    """Draw the address to open, and how to continue if its page cannot be shown."""
    login = reader.name_call("mcp login", name=result.name, address="ADDRESS")
    issuer_host = urlsplit(result.issuer).netloc
    facts = [
        ("At:", result.host),
        ("For:", issuer_host if issuer_host != result.host else ""),
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
        line("  ", ("verb", login), hang=4),
        line(("dim", f"Valid for {result.minutes} minutes.")),
    )


async def begin_sign_in(caller: Caller, hub: Hub, name: str) -> SignInInstructions:
    """Begin to sign in at a server; return the instructions."""
    page = await hub.oauth_sign_ins.login(caller, await hub.find(name))
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
    """Submit the address that a browser came back to; return if it completes sign-in.

    Raises:
        WorldError: if the address belongs to no sign-in, or the sign-in fails.
    """
    server = await hub.find(name)
    return await hub.oauth_sign_ins.submit_address(server, address, 2 * SIGN_IN_CONNECT_SECONDS)
