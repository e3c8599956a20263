"""`sshwarma agents`: agents and their roles."""

from __future__ import annotations

import click

from sshwarma.cli.invocation import ROLES, Invocation, align_columns, with_invocation


@click.group()
def agents() -> None:
    """List agents, change their roles, disable and enable them."""


@agents.command("list")
@with_invocation
def list_agents(invocation: Invocation) -> int:
    """List agents with their role, kind, keys and connections."""
    records = invocation.operate("agents_list")
    rows = (
        (
            agent["name"],
            agent["role"],
            agent["kind"],
            f"{agent['keys']} {'key' if agent['keys'] == 1 else 'keys'}",
            f"{agent['connections']} connected",
            "disabled" if agent["disabled"] else "",
        )
        for agent in records
    )
    return invocation.show(records, *align_columns(rows))


@agents.command("role")
@click.argument("name")
@click.argument("role", type=click.Choice(ROLES))
@with_invocation
def set_role(invocation: Invocation, name: str, role: str) -> int:
    """Give agent NAME a role."""
    agent = invocation.change("agents_role", name=name, role=role)
    return invocation.show(agent, f"Changed the role of {agent['name']} to {agent['role']}.")


@agents.command()
@click.argument("name")
@with_invocation
def disable(invocation: Invocation, name: str) -> int:
    """Disable agent NAME and end its connections at once."""
    agent = invocation.change("agents_disable", name=name)
    return invocation.show(agent, f"{agent['name']} is disabled")


@agents.command()
@click.argument("name")
@with_invocation
def enable(invocation: Invocation, name: str) -> int:
    """Enable agent NAME again."""
    agent = invocation.change("agents_enable", name=name)
    return invocation.show(agent, f"{agent['name']} is enabled")
