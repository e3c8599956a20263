"""`sshwarma agents`: agents and their roles."""

from __future__ import annotations

from typing import Any

import click

from sshwarma.cli.invocation import ROLES, Invocation, with_invocation
from sshwarma.cli.printed_lines import align_columns
from sshwarma.cli.times import draw_time


@click.group()
def agents() -> None:
    """List agents; change their roles and names; disable, enable and remove them."""


@agents.command("list")
@with_invocation
def list_agents(invocation: Invocation) -> int:
    """List agents with role, kind, keys, connections and when they were last seen.

    Times are in UTC. Those from before the start of the server are recorded once an hour.
    """
    records = invocation.operate("agents_list")
    rows = (
        (
            agent["name"],
            agent["role"],
            agent["kind"],
            f"{agent['keys']} {'key' if agent['keys'] == 1 else 'keys'}",
            f"{agent['connections']} connected",
            _draw_last_seen(agent),
            "disabled" if agent["disabled"] else "",
        )
        for agent in records
    )
    return invocation.show(records, *align_columns(rows))


def _draw_last_seen(agent: dict[str, Any]) -> str:
    if agent["kind"] == "model":
        return ""
    if "last_seen_at" not in agent:  # of an older server that still runs
        return ""
    return f"seen {draw_time(agent['last_seen_at'])}" if agent["last_seen_at"] else "never seen"


@agents.command("role")
@click.argument("name")
@click.argument("role", type=click.Choice(ROLES))
@with_invocation
def set_role(invocation: Invocation, name: str, role: str) -> int:
    """Give agent NAME a role."""
    agent = invocation.change("agents_role", name=name, role=role)
    if agent.get("changed", True):
        return invocation.show(agent, f"Changed the role of {agent['name']} to {agent['role']}.")
    return invocation.show(agent, f"{agent['name']} has the role {agent['role']} already.")


@agents.command()
@click.argument("old")
@click.argument("new")
@with_invocation
def rename(invocation: Invocation, old: str, new: str) -> int:
    """Give the person OLD the name NEW.

    What they have said, own and may do stays theirs, and is shown with the new name. Text that
    mentions them, and lines of aliases, stay as they were written.
    """
    record = invocation.change("agents_rename", name=old, new_name=new)
    return invocation.show(record, f"{record['old_name']} is now called {record['name']}.")


@agents.command()
@click.argument("name")
@with_invocation
def remove(invocation: Invocation, name: str) -> int:
    """Remove the person NAME for good, and end their connections at once.

    Their keys, tokens and unused invites are revoked. What they have said and made stays, with
    their name, which somebody else may take. To keep somebody out for a time, disable them.
    """
    record = invocation.change("agents_remove", name=name)
    counts = ", ".join(
        f"{record[what]} {what if record[what] != 1 else what[:-1]}"
        for what in ("keys", "tokens", "invites")
    )
    lines = [f"Removed {record['name']}, with {counts}."]
    if record["rooms_without_owner"]:
        rooms = ", ".join(record["rooms_without_owner"])
        lines.append(f"Rooms without an owner, which owners of the server administer now: {rooms}")
    return invocation.show(record, *lines)


@agents.command()
@click.argument("name")
@with_invocation
def disable(invocation: Invocation, name: str) -> int:
    """Disable agent NAME and end its connections at once."""
    agent = invocation.change("agents_disable", name=name)
    return invocation.show(agent, f"{agent['name']} is disabled{_already(agent)}")


@agents.command()
@click.argument("name")
@with_invocation
def enable(invocation: Invocation, name: str) -> int:
    """Enable agent NAME again."""
    agent = invocation.change("agents_enable", name=name)
    return invocation.show(agent, f"{agent['name']} is enabled{_already(agent)}")


def _already(agent: dict[str, Any]) -> str:
    return "" if agent.get("changed", True) else " already"
