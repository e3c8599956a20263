"""MCP servers that a manifest declares, as settings of the hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from sshwarma.settings import McpSettings, describe_settings_errors
from sshwarma.toolsets.manifest import ServerEntry, ToolsetManifest
from sshwarma.toolsets.plain_secrets import find_plain_secret
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

NETWORK_KEY = "network"
"""Key of the metadata of a server whose program is in the network of the machine."""

DeclaredServer = tuple[McpSettings, Mapping[str, Any]]
"""How a server is reached, and what the table of servers shows of it."""


class ServerConnections(Protocol):
    """Declares the servers of toolsets and connects them."""

    def declare(
        self,
        tx: Change,
        space: Thing,
        servers: Sequence[DeclaredServer],
        created_by: str,
        describe: Callable[[str], str] = str,
    ) -> None:
        """Make these the servers of a toolset, in the change that installs it.

        `describe` adds its file and line to a problem of a field of the manifest.
        """

    def remove(self, tx: Change, space: Thing) -> None:
        """Remove the servers of a toolset, in the change that uninstalls it."""

    async def apply(self, space_id: str) -> None:
        """Connect the servers of a toolset as they are now, and disconnect what is gone."""


def read_servers(
    manifest: ToolsetManifest, describe: Callable[[str], str] = str
) -> list[DeclaredServer]:
    """Return the servers of a manifest.

    Args:
        manifest: which declares them.
        describe: adds its file and line to a problem of a field.

    Raises:
        Invalid: if one has a secret in plain text, or an address that is not valid.
    """
    servers: list[DeclaredServer] = []
    for index, entry in enumerate(manifest.mcp_servers):
        if problem := find_plain_secret(entry):
            raise Invalid(f"{describe(f'mcp_servers[{index}].{problem}')}.")
        try:
            servers.append((_read_settings(entry), _list_columns(entry)))
        except ValidationError as error:
            problem = describe_settings_errors(error, McpSettings)[0]
            text = describe(f"mcp_servers[{index}].{problem.removesuffix('.')}")
            raise Invalid(f"{text}.") from error
    return servers


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an owner has allowed a toolset.

    Attributes:
        network: programs of its MCP servers may have the network of the machine.
        packages: packages that it requires are installed.
    """

    network: bool = False
    packages: bool = False


async def check_trust(caller: Caller, manifest: ToolsetManifest, allowed: Allowed) -> None:
    """Refuse what only an owner may add, and what even an owner must allow.

    A variable of the environment may be a secret of the server, and an address is where it goes.
    Packages come from an index, which may be anybody's.

    Raises:
        Forbidden: if the caller is no owner.
        Invalid: if an owner has not allowed it.
    """
    trusted = [f"mcp_servers {name}" for name in sorted(list_trusted(manifest))]
    if reasons := [*trusted, *(["requirements"] if manifest.requirements else [])]:
        try:
            await caller.require(Right.OWN)
        except Forbidden as refused:
            why = f"{refused.message} The manifest needs it: {', '.join(reasons)}."
            raise Forbidden(why, hint=refused.hints) from refused
    names = ", ".join(server.id for server in manifest.mcp_servers if server.network)
    if names and not allowed.network:
        raise Invalid(
            f"The program of {names} wants the network of the server's machine, with all that"
            " listens there.",
            hint=f"Add {caller.reader.name_flag('network')} to allow it.",
        )
    if manifest.requirements and not allowed.packages:
        raise Invalid(
            f"{manifest.id} wants packages from the package index, with all that they need:"
            f" {', '.join(manifest.requirements)}.",
            hint=f"Add {caller.reader.name_flag('packages')} to allow it.",
        )


def list_trusted(manifest: ToolsetManifest) -> frozenset[str]:
    """Return the ids of servers with an address, a variable, or the network."""
    return frozenset(
        server.id
        for server in manifest.mcp_servers
        if server.url is not None or server.network or "${" in server.model_dump_json()
    )


def _read_settings(entry: ServerEntry) -> McpSettings:
    fields: dict[str, Any] = {"name": entry.id, "env": entry.env, "headers": entry.headers}
    if entry.command is not None:
        fields["command"] = [entry.command, *entry.args]
    else:
        fields |= {"url": entry.url, "sse": entry.kind == "sse"}
    return McpSettings.model_validate(fields)


def _list_columns(entry: ServerEntry) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "server_type": entry.kind,
        "command": entry.command,
        "args": json.dumps(list(entry.args)) if entry.command is not None else None,
        "url": entry.url,
        "headers": json.dumps(entry.headers) if entry.headers else None,
        "env": json.dumps(entry.env) if entry.env else None,
        "requires_confirmation": entry.requires_confirmation,
        NETWORK_KEY: entry.network or None,
    }
    return {name: value for name, value in columns.items() if value is not None}
