"""The verb `/toolset link`: a toolset in a folder of the server's machine."""

from __future__ import annotations

from pathlib import Path

from sshwarma.common.os_errors import describe_os_error
from sshwarma.services import services_of
from sshwarma.toolsets.servers import Allowed
from sshwarma.verbs.arguments import Flag, Word
from sshwarma.verbs.toolset import toolset
from sshwarma.verbs.toolset_installed import ToolsetInstalled, describe_import
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid


@toolset.verb("link", needs=Right.OWN, tool=False, examples=("/toolset link /srv/toolsets/kit",))
async def link_toolset(
    caller: Caller, folder: Word, *, network: Flag = False, packages: Flag = False
) -> ToolsetInstalled:
    """Install the toolset in a folder of the server's machine, for its authors.

    A call of one of its tools installs it again if a file there has changed. An import of the same
    id ends that.

    Args:
        folder: its whole path; the user of the server must be able to read it.
        network: let programs of its MCP servers use the network of the server's machine.
        packages: install the packages that it requires.
    """
    path = Path(folder)
    if not path.is_absolute():
        raise Invalid("folder: must be a whole path, which begins with /.")
    try:
        done = await services_of(caller).toolsets.link(caller, path, Allowed(network, packages))
    except OSError as error:
        raise Invalid(f"folder: {describe_os_error(error)}") from error
    return await describe_import(caller, done, is_link=True)
