"""`sshwarma config`: the settings in force."""

from __future__ import annotations

from typing import Any

import click

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.cli.printed_lines import print_json
from sshwarma.common.exit_status import EXIT_OK


@click.group()
def config() -> None:
    """Show settings."""


@config.command()
@with_invocation
def show(invocation: Invocation) -> int:
    """Print the settings in force, as a settings file."""
    import tomli_w

    settings = invocation.settings().model_dump(mode="json")
    if invocation.as_json:
        print_json(settings)
    else:
        print(tomli_w.dumps(_without_none(settings)), end="")
    return EXIT_OK


def _without_none(value: Any) -> Any:
    """Return the value without the keys that are not set, which TOML cannot express."""
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_none(inner) for inner in value]
    return value
