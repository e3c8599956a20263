"""Toolsets in folders of this machine, installed again when they change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import structlog

from sshwarma.toolsets.bundle import Bundle, hash_files, read_bundle
from sshwarma.toolsets.local_folder import read_folder
from sshwarma.toolsets.manifest import ToolsetManifest
from sshwarma.toolsets.servers import list_trusted
from sshwarma.toolsets.stored_keys import (
    INSTALLED_BY_KEY,
    INSTALLED_OVER_KEY,
    LINKED,
    SOURCE_REF_KEY,
    SOURCE_TYPE_KEY,
    TREE_KEY,
    Source,
)
from sshwarma.toolsets.upgrade import Installed, Upgrade
from sshwarma.world import things
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Invalid
from sshwarma.world.overrides import CONFIRM_KEY
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World

log = structlog.get_logger(__name__)

Changing: TypeAlias = Callable[
    [Callable[[Change], tuple[Thing, Upgrade]]], Awaitable[tuple[Thing, Upgrade]]
]
"""Carries out a change, which returns the toolset and what is different."""


Installing: TypeAlias = Callable[[Caller, Bundle, Source, Changing, Thing], Awaitable[Installed]]


class LinkedToolsets:
    """Installs linked toolsets again, before a call of one of their tools."""

    def __init__(self, world: World, install: Installing) -> None:
        """Install by a function."""
        self._world = world
        self._install = install

    async def refresh(self, caller: Caller, tool: Thing) -> Thing:
        """Install a linked toolset again if its folder has changed; return the tool.

        Raises:
            Invalid: if the folder cannot be used as it is.
            Conflict: if it has changed, and a person has allowed the call before.
            NotFound: if it does not have the tool any more.
        """
        if not await self.install_again(caller, tool):
            return tool
        now = await self._read_thing(tool.id)
        if tool.metadata.get(CONFIRM_KEY) or now.metadata.get(CONFIRM_KEY):
            raise Conflict(f"{tool.label} was changed just now, so it was not run: call it again.")
        return now

    async def install_again(self, caller: Caller, tool: Thing) -> bool:
        """Install a linked toolset again, and return True, if its folder has changed.

        Raises:
            Invalid: if the folder cannot be used as it is.
        """
        space = await self._read_thing(tool.parent_id or "")
        if space.metadata.get(SOURCE_TYPE_KEY) != LINKED:
            return False
        meta = space.metadata
        folder = str(meta[SOURCE_REF_KEY])
        # Of who has linked it: a call of a tool, by anybody, brings no other toolset.
        source = Source(
            LINKED,
            folder,
            str(meta.get(INSTALLED_BY_KEY) or caller.agent.id),
            str(meta.get(INSTALLED_OVER_KEY, "")),
        )
        try:
            bundle = await asyncio.to_thread(lambda: read_bundle(read_folder(Path(folder))))
        except (Invalid, OSError) as error:
            reason = str(error) if isinstance(error, Invalid) else f"{error.strerror}."
            raise Invalid(f"The folder of {space.label} cannot be used: {reason}") from error
        if hash_files(bundle.hashes) == space.metadata.get(TREE_KEY):
            return False
        self._check_same_trust(space, bundle)
        await self._install(caller, bundle, source, self._world.change, space)
        log.info("a linked toolset has changed, and is installed again", toolset=space.label)
        return True

    async def _read_thing(self, thing_id: str) -> Thing:
        return await self._world.store.read(lambda conn: things.get_live_thing(conn, thing_id))

    def _check_same_trust(self, space: Thing, bundle: Bundle) -> None:
        """Refuse what an owner has not allowed when the folder was linked.

        Raises:
            Invalid: if it is another toolset, or has what only an owner may add.
        """
        before = ToolsetManifest.model_validate_json(json.dumps(space.metadata[BUNDLE_KEY]))
        known = {server.id: server for server in before.mcp_servers}
        trusted = list_trusted(bundle.manifest)
        is_same = all(
            known.get(server.id) == server
            for server in bundle.manifest.mcp_servers
            if server.id in trusted
        )
        is_same = is_same and bundle.manifest.requirements == before.requirements
        if bundle.manifest.id != space.label or not is_same:
            raise Invalid(
                f"The folder of {space.label} has another id, other requirements, or a server that"
                " only an owner may add.",
                hint="An owner can link it again.",
            )


def is_installed_again(known: Thing | None, seen: Thing, tree: str) -> bool:
    """Return whether a call of the same moment has installed a linked toolset again.

    Raises:
        Conflict: if the toolset is not as it was seen.
    """
    live = known if known is not None and not known.deleted_at else None
    if live is not None and live.metadata.get(TREE_KEY) == tree:
        return True
    if live is None or live.metadata != seen.metadata:
        raise Conflict(f"{seen.label} was changed just now: call it again.")
    return False
