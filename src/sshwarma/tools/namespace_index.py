"""The namespaces of a world as the search sees them, updated as they change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection

from sshwarma.tools.indexed_namespace import IndexedNamespace
from sshwarma.tools.search import NamespaceSearch
from sshwarma.world import overrides, things
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.events import WorldChanged
from sshwarma.world.loadout import AncestorCache
from sshwarma.world.namespaces import Namespace, read_metadata_words, read_namespaces
from sshwarma.world.things import Thing
from sshwarma.world.world import World

INDEX_SETTLE_SECONDS: Final = 1.0
"""Seconds to wait for further changes after one."""


def index_namespaces(conn: Connection, room_id: str | None = None) -> list[IndexedNamespace]:
    """All namespaces with descriptions of their tools; of rooms only the given one.

    Nothing of a disabled toolset is among them, and no tool that is disabled.
    """
    chains, decided = AncestorCache(conn), overrides.read_overrides(conn)
    return [
        _index_namespace(conn, namespace, decided)
        for namespace in read_namespaces(conn, room_id)
        if not _is_disabled_bundle(namespace.thing)
        and chains.find_disabled_bundle(namespace.thing) is None
    ]


def _is_disabled_bundle(space: Thing) -> bool:
    return not space.enabled and BUNDLE_KEY in space.metadata


def _index_namespace(
    conn: Connection, namespace: Namespace, decided: Mapping[str, overrides.Override]
) -> IndexedNamespace:
    tools = [
        tool
        for tool in (
            overrides.apply_override(one, decided.get(one.label))
            for one in things.read_children(conn, namespace.thing.id, "tool")
        )
        if tool.enabled
    ]
    tool_keywords = (word for tool in tools for word in read_metadata_words(tool, "keywords"))
    return IndexedNamespace(
        namespace.id,
        namespace.title,
        f"{namespace.thing.description} {namespace.instructions}".strip(),
        tuple(dict.fromkeys((*namespace.own_keywords, *tool_keywords))),
        tuple(f"{tool.name}: {tool.description}" for tool in tools),
    )


class Prefetcher:
    """Computes vectors of namespaces when they change, not when somebody searches."""

    def __init__(self, world: World, finder: NamespaceSearch) -> None:
        self._world = world
        self._search = finder
        self._changed = asyncio.Event()
        self._changed.set()
        world.bus.on_event(WorldChanged, lambda _: self._changed.set())

    async def watch(self) -> None:
        """Follow changes until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(INDEX_SETTLE_SECONDS)
            self._changed.clear()
            try:
                await self._search.prepare(await self._world.memoized("spaces", index_namespaces))
            except BaseException:
                self._changed.set()  # the change is still to be followed
                raise
