"""`sshwarma config`: the settings in force."""

from __future__ import annotations

import json
from typing import Any

import click

from sshwarma.cli.invocation import Invocation, with_invocation
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
        print(json.dumps(settings, indent=2))
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
