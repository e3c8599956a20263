"""A manifest with a value in every field, changed at one place, and its refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sshwarma.toolsets.manifest_errors import InvalidManifest
from sshwarma.toolsets.manifest_reading import read_manifest

Manifest = dict[str, Any]


def whole() -> Manifest:
    """A manifest with a value in every field."""
    return {
        "manifest_version": "1",
        "id": "demo",
        "name": "Demo",
        "version": "1.0.0",
        "description": "Shows everything.",
        "tools": [
            {
                "id": "write_file",
                "entrypoint": "tools.files:write_file",
                "name": "Write file",
                "description": "Writes.",
                "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
                "requires_confirmation": True,
                "renderer": {"type": "code", "file": "$args.path", "language": "auto"},
            },
            {"id": "plot", "entrypoint": "plot:run"},
        ],
        "tool_overrides": [
            {
                "tool_id": "plot",
                "renderer": "html",
                "renderer_config": {"artifact": "./artifacts/plot.html", "data": "$return"},
                "name_override": "Plot",
                "description_override": "Plots.",
                "requires_confirmation": False,
                "enabled": True,
            },
            {"tool_id": "web:search", "enabled": False},
        ],
        "mcp_servers": [
            {
                "id": "web", "command": "npx", "args": ["-y", "pkg"], "env": {"KEY": "${KEY}"},
                "network": True, "requires_confirmation": True,
            },
            {
                "id": "remote", "server_type": "sse", "url": "https://mcp.example.org/sse",
                "headers": {"Authorization": "Bearer ${KEY}"},
            },
        ],
        "requirements": ["humanize==4.15.0", "zope.interface[docs]==7.0rc1"],
    }  # fmt: skip


def with_value(path: str, value: Any) -> Manifest:
    """The manifest with another value at `a.0.b`."""
    manifest = whole()
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = manifest
    for part in above:
        target = target[part]
    if isinstance(target, list) and last == len(target):
        target.append(value)
    else:
        target[last] = value
    return manifest


def refusal_of(manifest: Manifest) -> str:
    with pytest.raises(InvalidManifest) as refusal:
        read_manifest(json.dumps(manifest).encode())
    return str(refusal.value)
