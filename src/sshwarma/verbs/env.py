"""The verb `/env`: the machine that the server runs on."""

from __future__ import annotations

from dataclasses import dataclass

from sshwarma.common.environment import find_shell, find_system
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, view
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """The environment of the server, with the names that its messages have.

    Attributes:
        os: the operating system.
        shell: the shell that started the server.
        initialCwd: the directory in which it was started.
    """

    os: str
    shell: str
    initialCwd: str  # noqa: N815 - as in messages


@view(EnvironmentInfo)
def draw_environment_info(result: EnvironmentInfo) -> Block:
    """Draw the environment of the server."""
    facts = (("OS", result.os), ("Shell", result.shell), ("Initial CWD", result.initialCwd))
    return block(*draw_columns(((("mark", name), value) for name, value in facts), indent=0))


@verb(
    "env",
    section="Looking",
    needs=Right.ENTER,
    tool="get_env_info",
    mcp_tool="get_env_info",
    examples=("/env",),
)
async def show_environment(caller: Caller) -> EnvironmentInfo:
    """Show the operating system, the shell and the directory of the server.

    The directory is the one in which it was started.

    For people:
        /state directory shows that of this room.
    """
    return EnvironmentInfo(
        find_system(), find_shell(), services_of(caller).projects.start_directory
    )
