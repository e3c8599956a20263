"""`sshwarma token`: bearer tokens for the HTTP API and MCP."""

from __future__ import annotations

import click

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.cli.printed_lines import align_columns
from sshwarma.cli.times import draw_life
from sshwarma.common.limits import MAX_TOKEN_DAYS


@click.group()
def token() -> None:
    """Manage bearer tokens for the HTTP API and MCP."""


@token.command()
@click.argument("name")
@click.option("--label", required=True, help="Label to know the token by.")
@click.option(
    "--days",
    type=click.FloatRange(0, MAX_TOKEN_DAYS, min_open=True),
    help="Lifetime in days (default: until the token is revoked).",
)
@click.option(
    "--scope",
    type=click.Choice(["read", "act", "build", "approve"]),
    default="act",
    show_default=True,
    help="read: look; act: also talk, move and call tools; build: also all else that the agent may"
    " do, but allow calls that wait for a person; approve: that, too.",
)
@with_invocation
def new(invocation: Invocation, name: str, label: str, days: float | None, scope: str) -> int:
    """Print a new token for agent NAME."""
    new_token = invocation.change("token_new", name=name, label=label, days=days, scope=scope)
    return invocation.show(new_token, new_token["token"])


@token.command("list")
@click.argument("name", required=False)
@with_invocation
def list_tokens(invocation: Invocation, name: str | None) -> int:
    """List active tokens of all agents, or of agent NAME.

    Times are in UTC; the last use is that of an hour ago at most.
    """
    records = invocation.operate("token_list", name=name)
    rows = (
        (record["id"], record["agent"], record["scope"], *draw_life(record), record["label"])
        for record in records
    )
    return invocation.show(records, *align_columns(rows))


@token.command()
@click.argument("id")
@with_invocation
def revoke(invocation: Invocation, id: str) -> int:
    """Revoke a token. ID is its id, or the start of it."""
    record = invocation.change("token_revoke", token_id=id)
    return invocation.show(record, f"Revoked token {record['id']} of {record['agent']}.")
