"""The role with which scripts act."""

from __future__ import annotations

from dataclasses import replace

from sshwarma.world.agents import Agent


def as_member(agent: Agent) -> Agent:
    """Return an agent with the role of a member at most on the server."""
    return replace(agent, role="member") if agent.role in ("owner", "admin") else agent
