"""The tools of a toolset for another host of MCP, as its manifest says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sshwarma.toolsets.bundle import Bundle
from sshwarma.toolsets.manifest_reading import EffectiveOverride, list_overrides
from sshwarma.toolsets.worker_process import describe_toolset, list_tools


def describe_served(bundle: Bundle, folder: Path, workspace: Path) -> dict[str, Any]:
    """Return the configuration of a worker that serves the enabled tools.

    What the manifest says of a tool counts before what its function says, and `tool_overrides`
    before both, as in a world.

    Args:
        bundle: the toolset.
        folder: where its files are.
        workspace: the folder that its tools work in.
    """
    manifest = bundle.manifest
    config = describe_toolset(
        manifest.id,
        manifest.version,
        list_tools(bundle),
        folder=str(folder.resolve()),
        workspace=str(workspace.resolve()),
    )
    decided = {one.tool_id: one for one in list_overrides(manifest)}
    served = []
    for entry, tool in zip(manifest.tools, config["tools"], strict=True):
        full_id = f"{manifest.id}:{entry.id}"
        override = decided.get(full_id, EffectiveOverride(full_id))
        if override.enabled is False:
            continue
        confirms = override.requires_confirmation
        said = {
            "title": override.name or entry.name,
            "description": override.description
            if override.description is not None
            else entry.description or None,
            "requires_confirmation": entry.requires_confirmation if confirms is None else confirms,
        }
        served.append(tool | {key: value for key, value in said.items() if value is not None})
    return config | {"tools": served}
