"""A look at the tools of a bundle, before it is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from sshwarma.common.limits import TOOLSET_IMPORT_SECONDS
from sshwarma.sandbox.run import SandboxError
from sshwarma.toolsets.bundle import Bundle
from sshwarma.toolsets.import_warnings import describe_unreadable, list_warnings
from sshwarma.toolsets.records import ToolInfo
from sshwarma.toolsets.worker_process import (
    ToolsetCode,
    WorkerError,
    Workers,
    list_tools,
    no_sandbox_error,
)
from sshwarma.toolsets.worker_results import read_tools
from sshwarma.workspaces.runs import sandbox_user
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid


async def inspect_bundle(
    workers: Workers, caller: Caller, bundle: Bundle, mounts: Mapping[str, Path]
) -> tuple[list[ToolInfo], tuple[str, ...]]:
    """Let a worker describe the tools, in a sandbox without files of a room.

    It needs a share of the sandboxes. Returns also what their author should know.

    Raises:
        Invalid: if one cannot be imported or described.
        Unavailable: if there is no sandbox.
    """
    manifest = bundle.manifest
    code = ToolsetCode(manifest.id, manifest.version, mounts, list_tools(bundle))
    user = sandbox_user(caller)
    try:
        answer = await workers.ask(code, None, "", "tools/list", {}, TOOLSET_IMPORT_SECONDS, user)
    except SandboxError as error:
        raise no_sandbox_error(error) from error
    except WorkerError as error:
        reason = await asyncio.to_thread(describe_unreadable, bundle, str(error))
        raise Invalid(reason) from error
    except TimeoutError:
        seconds = f"{TOOLSET_IMPORT_SECONDS:.0f} s"
        raise Invalid(f"The tools of {manifest.id} cannot be read in {seconds}.") from None
    tools = read_tools(bundle, answer)
    return tools, await asyncio.to_thread(list_warnings, bundle, tools, answer)
