"""The verbs of `/token`: with tokens, programs log in over HTTP as an agent.

They need no ssh key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from sshwarma.common.limits import MAX_TOKEN_DAYS
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option, Word
from sshwarma.verbs.registry import group
from sshwarma.verbs.rights import ArgumentRight
from sshwarma.verbs.views import (
    SHOWN_ID_CHARACTERS,
    Confirmation,
    draw_columns,
    format_clock,
    view,
)
from sshwarma.world import tokens
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.store import Change
from sshwarma.world.tokens import Token


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token. `token` is its secret text, shown this once."""

    id: str
    label: str
    scope: str
    token: str
    expires_at: int | None


@view(NewToken)
def draw_new_token(token: NewToken) -> Block:
    """Draw a new token, with its scope and expiry."""
    until = f" until {format_clock(token.expires_at)}" if token.expires_at is not None else ""
    return block(
        line(("mark", token.token)),
        line(
            (
                "dim",
                f"It acts as you, with the scope {token.scope}{until}. Copy it now:",
            ),
            ("dim", " only its hash is stored."),
            hang=2,
        ),
    )


@dataclass(frozen=True, slots=True)
class TokenListItem:
    """A token without its secret. Times are in milliseconds since 1970.

    `expires_at` is None if the token is valid until it is revoked, `last_used_at` if it was never
    used; a use is recorded once in LAST_USE_MINUTES.
    """

    id: str
    label: str
    scope: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None


@dataclass(frozen=True, slots=True)
class TokenList:
    """The tokens of the caller."""

    tokens: tuple[TokenListItem, ...]


@view(TokenList)
def draw_token_list(result: TokenList) -> Block:
    """Draw the caller's tokens."""
    if not result.tokens:
        return block(line("You have no tokens. ", ("verb", "/token new LABEL"), " creates one."))
    return block(
        line(("heading", "Your tokens:")),
        *draw_columns(
            (
                ("mark", token.id[:SHOWN_ID_CHARACTERS]),
                token.scope,
                ("time", format_clock(token.created_at)),
                (
                    "time",
                    f"until {format_clock(token.expires_at)}"
                    if token.expires_at
                    else "until revoked",
                ),
                (
                    "time",
                    f"used {format_clock(token.last_used_at)}"
                    if token.last_used_at
                    else "never used",
                ),
                token.label,
            )
            for token in result.tokens
        ),
    )


async def complete_tokens(request: CompletionRequest) -> list[Option]:
    """List the ids of the caller's tokens, with their labels."""
    caller = request.caller
    live_tokens = await caller.world.store.read(
        lambda conn: tokens.read_live_tokens(conn, caller.agent.id, "program")
    )
    return [(token.id, token.label) for token in live_tokens]


TokenDays: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_TOKEN_DAYS)]
TokenId: TypeAlias = Annotated[str, Arg(complete=complete_tokens)]
"""A token by its id, or the start of it."""

token = group(
    "token",
    section="Yourself",
    default="list",
    doc="""List, create and revoke your tokens.

    A token lets a program log in as you over HTTP: an MCP client at /mcp, a script at /api. It can
    do what you can, within its scope. /help agents explains how to use one.
    """,
)


@token.verb(
    "list", tool=False, ssh_only=True, examples=("/token", "/token list"), scope=TokenScope.BUILD
)
async def list_tokens(caller: Caller) -> TokenList:
    """List your tokens, with their creation, expiry and last use.

    The use of a token is recorded once in {LAST_USE_MINUTES} minutes.
    """
    live_tokens = await caller.world.store.read(
        lambda conn: tokens.read_live_tokens(conn, caller.agent.id, "program")
    )
    return TokenList(tuple(_make_list_item(entry) for entry in live_tokens))


@token.verb(
    "new",
    tool=False,
    ssh_only=True,
    also_needs=(ArgumentRight("label", Right.CREATE, "to make a token"),),
    examples=("/token new laptop", "/token new dashboard --scope read --days 30"),
    scope=TokenScope.BUILD,
)
async def create_token(
    caller: Caller,
    label: Word,
    *,
    scope: Literal["read", "act", "build", "approve"] = "act",
    days: TokenDays | None = None,
) -> NewToken:
    """Create a token. It is shown once.

    Args:
        label: a label to know it by.
        scope: read looks, act also talks, moves and calls tools, build does all that you may, but
            for approvals of calls, which approve allows, too.
        days: lifetime in days (default: until it is revoked). If the key of this connection
            expires, the token ends with it at the latest.
    """
    label = tokens.check_label(label)
    agent_id = caller.agent.id

    def issue(tx: Change) -> tuple[Token, str]:
        return tokens.issue_token(
            tx,
            agent_id=agent_id,
            label=label,
            days=days,
            created_by=agent_id,
            scope=TokenScope(scope),
            fingerprint=caller.origin.fingerprint,
        )

    new_token, secret = await caller.change(issue)
    return NewToken(new_token.id, new_token.label, new_token.scope, secret, new_token.expires_at)


@token.verb(
    "revoke", tool=False, ssh_only=True, examples=("/token revoke 0199",), scope=TokenScope.BUILD
)
async def revoke_token(caller: Caller, token_id: TokenId) -> Confirmation:
    """Revoke a token of yours at once.

    Args:
        token_id: its id, or the start of it.
    """
    record = await caller.change(lambda tx: tokens.revoke_token(tx, token_id, caller.agent.id))
    return Confirmation(f"Revoked the token {record.label or record.id}.")


def _make_list_item(token: Token) -> TokenListItem:
    return TokenListItem(
        token.id,
        token.label,
        token.scope,
        token.created_at,
        token.expires_at,
        token.last_used_at,
    )
