"""Roles of the command line: those of the world, which it does not import to start at once."""

from __future__ import annotations

from sshwarma.cli.invocation import ROLES
from sshwarma.world.agents import SERVER_ROLES


def test_roles_of_the_command_line_are_those_of_the_world() -> None:
    assert ROLES == SERVER_ROLES
