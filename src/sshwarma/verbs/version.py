"""The verb `version`."""

from __future__ import annotations

from dataclasses import dataclass

import sshwarma
from sshwarma.terminal.text import Block, block
from sshwarma.verbs.registry import (
    verb,
)
from sshwarma.verbs.views import view
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class Version:
    """The version of the program."""

    version: str


@view(Version)
def draw_version(result: Version) -> Block:
    """Draw the version of the program."""
    return block(f"sshwarma {result.version}")


@verb("version", section="Yourself", examples=("/version",), namespace="global")
async def version(caller: Caller) -> Version:
    """Show the version of this server."""
    return Version(sshwarma.__version__)
