"""Your tokens: how programs come in as you, over HTTP, where there is no ssh key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Days, Word
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Confirmation, draw_columns, format_clock, view
from sshwarma.world import tokens
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid
from sshwarma.world.store import Change
from sshwarma.world.tokens import Token

SHOWN_ID_CHARACTERS = 18
"""Characters of an id that a list shows: the first ones, where ids of one moment are alike, and
enough of the rest to tell them apart."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token. `token` is its secret text, shown this once."""

    id: str
    label: str
    scope: str
    token: str
    expires_at: int | None


@view(NewToken)
def draw_new_token(made: NewToken) -> Block:
    until = f" until {format_clock(made.expires_at)}" if made.expires_at is not None else ""
    return block(
        line(("mark", made.token)),
        line(
            (
                "dim",
                f"It speaks for you with the scope {made.scope}{until}. It is shown this once:",
            ),
            ("dim", " only a hash of it is kept."),
            hang=2,
        ),
    )


@dataclass(frozen=True, slots=True)
class TokenListItem:
    id: str
    label: str
    scope: str
    created_at: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class TokenList:
    tokens: tuple[TokenListItem, ...]


@view(TokenList)
def draw_token_list(result: TokenList) -> Block:
    if not result.tokens:
        return block(line("You have no tokens. ", ("verb", "/token new LABEL"), " makes one."))
    return block(
        line(("heading", "Your tokens:")),
        *draw_columns(
            (
                ("mark", token.id[:SHOWN_ID_CHARACTERS]),
                token.scope,
                ("time", format_clock(token.created_at)),
                (
                    "time",
                    f"until {format_clock(token.expires_at)}" if token.expires_at else "for ever",
                ),
                token.label,
            )
            for token in result.tokens
        ),
    )


@verb(
    "token",
    group="Yourself",
    tool=False,
    examples=(
        "/token",
        "/token new laptop",
        "/token new dashboard --scope read --days 30",
        "/token revoke 0199",
    ),
    scope=TokenScope.BUILD,
)
async def token(
    caller: Caller,
    what: Literal["list", "new", "revoke"] = "list",
    name: Word | None = None,
    *,
    scope: Literal["read", "act", "build"] = "act",
    days: Days | None = None,
) -> TokenList | NewToken | Confirmation:
    """See, make and end your tokens

    A token lets a program come in as you, over HTTP: an MCP client at /mcp, a script at /api. It
    can do what you can, as far as its scope goes. /help agents tells how to use one.

    what: list, new or revoke; list if left out.
    name: for new, a label, so that you know it again; for revoke, its id or the start of it.
    scope: read looks, act also talks, moves and calls tools, build does all that you may.
    days: how many days it is good for; until you revoke it if left out.
    """
    if caller.door not in ("ssh", "exec"):
        raise Forbidden(
            "Tokens are made and ended with your ssh key, not with a token.",
            hint="As in: ssh HOST token",
        )
    if what == "list":
        found = await caller.world.store.read(
            lambda conn: tokens.read_live_tokens(conn, caller.agent.id)
        )
        return TokenList(tuple(_make_list_item(one) for one in found))
    if not name:
        raise Invalid(
            "Say what to call it." if what == "new" else "Say which: the start of its id.",
            hint="/token new LABEL" if what == "new" else "/token lists them.",
        )
    agent_id = caller.agent.id
    if what == "revoke":
        gone = await caller.change(lambda tx: tokens.revoke_token(tx, name, agent_id))
        return Confirmation(f"The token {gone.label or gone.id} is no good any more.")

    def issue(tx: Change) -> tuple[Token, str]:
        return tokens.issue_token(tx, agent_id, name, days, agent_id, TokenScope(scope))

    made, secret = await caller.change(issue)
    return NewToken(made.id, made.label, made.scope, secret, made.expires_at)


def _make_list_item(one: Token) -> TokenListItem:
    return TokenListItem(one.id, one.label, one.scope, one.created_at, one.expires_at)
