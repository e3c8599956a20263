"""The command line's choices and defaults equal those of the world.

It does not import the world.
"""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_type_hints

import click
import pytest

from sshwarma.admin import operations
from sshwarma.admin.invite_operations import invite as invite_operation
from sshwarma.cli.invite import invite
from sshwarma.cli.invocation import ROLES
from sshwarma.cli.tokens import new
from sshwarma.verbs.token import create_token
from sshwarma.world.access import TokenScope
from sshwarma.world.agents import SERVER_ROLES


def option(command: click.Command, name: str) -> Any:
    return next(parameter for parameter in command.params if parameter.name == name)


def test_roles_of_the_command_line_are_those_of_the_world() -> None:
    assert ROLES == SERVER_ROLES


def test_scopes_are_those_of_the_world_at_every_door() -> None:
    scopes = tuple(TokenScope)
    assert tuple(option(new, "scope").type.choices) == scopes
    assert get_args(get_type_hints(create_token)["scope"]) == scopes


@pytest.mark.parametrize(
    ("command", "operation", "name"),
    [
        (new, operations.token_new, "scope"),
        (invite, invite_operation, "role"),
        (invite, invite_operation, "hours"),
    ],
)
def test_default_of_an_option_is_that_of_its_operation(
    command: click.Command, operation: Any, name: str
) -> None:
    assert option(command, name).default == inspect.signature(operation).parameters[name].default


def test_default_scope_is_the_same_for_the_verb_and_the_command() -> None:
    default = inspect.signature(create_token).parameters["scope"].default
    assert default == option(new, "scope").default
