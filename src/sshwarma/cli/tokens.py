"""`sshwarma token`: bearer tokens for the HTTP API and MCP."""

from __future__ import annotations

import click

from sshwarma.cli.invocation import Invocation, with_invocation


@click.group()
def token() -> None:
    """Manage bearer tokens for the HTTP API and MCP."""


@token.command()
@click.argument("name")
@click.option("--label", default="", help="What the token is for.")
@click.option("--days", type=float, help="Days until it expires (default: never).")
@click.option(
    "--scope",
    type=click.Choice(["read", "act", "build"]),
    default="build",
    show_default=True,
    help="read: look; act: also talk and call tools; build: everything the agent may do.",
)
@with_invocation
def new(invocation: Invocation, name: str, label: str, days: float | None, scope: str) -> int:
    """Print a new token for agent NAME."""
    done = invocation.operate("token_new", name=name, label=label, days=days, scope=scope)
    return invocation.show(done, done["token"])


@token.command("list")
@click.argument("name", required=False)
@with_invocation
def list_tokens(invocation: Invocation, name: str | None) -> int:
    """List active tokens of all agents, or of agent NAME."""
    found = invocation.operate("token_list", name=name)
    rows = (f"{one['id']}  {one['agent']}  {one['scope']}  {one['label']}" for one in found)
    return invocation.show(found, *rows)


@token.command()
@click.argument("id")
@with_invocation
def revoke(invocation: Invocation, id: str) -> int:
    """Revoke a token. ID is its id, or the start of it."""
    done = invocation.operate("token_revoke", token_id=id)
    return invocation.show(done, f"Revoked token {done['id']} of {done['agent']}.")
