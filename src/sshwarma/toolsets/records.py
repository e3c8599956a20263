"""Toolsets as the world stores them: namespace, tools, files and overrides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy import Connection, delete, insert, select

from sshwarma.common.times import format_iso
from sshwarma.tools.provider import PROVIDER_KEY
from sshwarma.toolsets.bundle import Bundle, BundleFile
from sshwarma.toolsets.manifest import ToolEntry, ToolsetManifest
from sshwarma.toolsets.manifest_errors import naming_place
from sshwarma.toolsets.manifest_reading import EffectiveOverride, list_overrides
from sshwarma.toolsets.stored_keys import (
    INSTALLED_BY_KEY,
    INSTALLED_OVER_KEY,
    PACKAGES_KEY,
    PLUGIN,
    SOURCE_REF_KEY,
    SOURCE_TYPE_KEY,
    TREE_KEY,
    ZIP,
    Source,
)
from sshwarma.world import namespaces, overrides, things
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.errors import Conflict, unknown_name_error
from sshwarma.world.leave_out import declare_policies
from sshwarma.world.reader import next_call
from sshwarma.world.schema import toolset_files
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

TOOLSET_PROVIDER: Final = "toolset"
"""The provider name in the metadata of a tool of a toolset."""

PLUGIN_HINT: Final = "It is what its folder on the server's machine says. Change the folder."


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool as its function says: what the manifest leaves out."""

    id: str
    title: str | None
    description: str
    input_schema: dict[str, Any]
    requires_confirmation: bool


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of an installed toolset."""

    path: str
    kind: str
    sha256: str
    size: int


def list_toolsets(conn: Connection) -> list[Thing]:
    """Return the installed toolsets, by name."""
    spaces = things.read_children(conn, namespaces.NAMESPACE_CONTAINER, "toolset")
    return sorted((one for one in spaces if is_toolset(one)), key=lambda one: one.name)


def is_toolset(thing: Thing) -> bool:
    """Return whether a namespace was installed from a bundle."""
    return thing.kind == "toolset" and isinstance(thing.metadata.get(BUNDLE_KEY), dict)


def is_plugin(thing: Thing) -> bool:
    """Return whether a namespace has the tools of plugin folders of this machine."""
    return is_toolset(thing) and thing.metadata.get(SOURCE_TYPE_KEY) == PLUGIN


def check_no_plugin(space: Thing) -> None:
    """Raise unless a toolset is changed by people, and not in a folder.

    Raises:
        Conflict: if it is a plugin.
    """
    if is_plugin(space):
        raise Conflict(f"{space.label} is a plugin of this server.", hint=PLUGIN_HINT)


def find_toolset(conn: Connection, name: str) -> Thing:
    """Return an installed toolset.

    Raises:
        NotFound: if no toolset has that id, with near ones.
    """
    known = {one.label: one for one in list_toolsets(conn)}
    if name.lower() not in known:
        hint = next_call("{} lists them.", "toolset list")
        raise unknown_name_error("toolset", name, known=known, hint=hint)
    return known[name.lower()]


def read_files(conn: Connection, toolset_id: str) -> list[StoredFile]:
    """Return the files of a toolset, by path."""
    columns = toolset_files.c
    query = select(columns.path, columns.kind, columns.sha256, columns.size).where(
        columns.toolset_id == toolset_id
    )
    return [StoredFile(*row) for row in conn.execute(query.order_by(columns.path))]


def check_bundle_id(conn: Connection, bundle: Bundle) -> Thing | None:
    """Return what has the id of a bundle now.

    Raises:
        Invalid, Conflict: as `check_toolset_id`, with the field and its line.
    """
    with naming_place(bundle.describe_problem, "id"):
        return check_toolset_id(conn, bundle.manifest.id)


def check_toolset_id(conn: Connection, toolset_id: str) -> Thing | None:
    """Return what has the id of a toolset now.

    Raises:
        Invalid: if it cannot be the name of a namespace.
        Conflict: if a namespace that is no toolset, or something else, has it.
    """
    namespaces.check_namespace_name(toolset_id)
    known = things.find_by_qualified_name(conn, toolset_id)
    if known is not None and known.deleted_at is None and not is_toolset(known):
        raise Conflict(
            f"{toolset_id} is {things.describe_kind(known.kind)} already.",
            hint="Rename one of them.",
        )
    if known is not None and known.deleted_at is None and is_plugin(known):
        raise Conflict(f"{toolset_id} is a plugin of this server already.", hint=PLUGIN_HINT)
    return known


def install_toolset(
    tx: Change,
    bundle: Bundle,
    tools: Sequence[ToolInfo],
    *,
    tree: str,
    packages: str,
    source: Source,
) -> Thing:
    """Install a toolset, or upgrade the one of its id; return its namespace.

    The same files of the same source change nothing: only what differs is written.

    On an upgrade, a field of an override that the manifest before had set to its present value
    follows the new manifest, and one that differs is a decision of people and stays. Tools that are
    gone are deleted, and the namespace stays where it is equipped.

    Raises:
        Conflict: if a namespace that is no toolset, or something else, has its id.
    """
    manifest = bundle.manifest
    known = check_bundle_id(tx.conn, bundle)
    is_new = known is None or known.deleted_at is not None
    if is_new:
        with naming_place(bundle.describe_problem, "id"):
            known = namespaces.create_namespace(tx, manifest.id, source.by, manifest.description)
    assert known is not None  # noqa: S101 - for mypy
    before = {} if is_new else _read_overrides_before(known)
    if not is_new and _is_stored(known, tree, source):
        metadata = {**known.metadata, PACKAGES_KEY: packages}
        space = change_thing(tx, known, known.description, metadata)
    else:
        metadata = _make_metadata(tx, known, manifest, source)
        metadata |= {TREE_KEY: tree, PACKAGES_KEY: packages}
        space = change_thing(tx, known, manifest.description, metadata)
    store_files(tx, manifest.id, bundle.files)
    _store_tools(tx, space, bundle, tools, source.by)
    _store_overrides(tx, manifest, before)
    return space


def _is_stored(known: Thing, tree: str, source: Source) -> bool:
    """Return whether an installed toolset has the same files from the same place.

    The hash of the archive does not count: it may be packed again.
    """
    meta = known.metadata
    is_same = source.kind == ZIP or meta.get(SOURCE_REF_KEY) == source.ref
    return is_same and (meta.get(TREE_KEY), meta.get(SOURCE_TYPE_KEY)) == (tree, source.kind)


def _make_metadata(
    tx: Change, known: Thing, manifest: ToolsetManifest, source: Source
) -> dict[str, Any]:
    return {
        **known.metadata,
        BUNDLE_KEY: manifest.model_dump(mode="json", exclude_none=True),
        "display_name": manifest.name,
        "title": manifest.name,
        "version": manifest.version,
        "manifest_version": manifest.manifest_version,
        SOURCE_TYPE_KEY: source.kind,
        SOURCE_REF_KEY: source.ref,
        INSTALLED_BY_KEY: source.by,
        INSTALLED_OVER_KEY: source.door,
        "installed_at": format_iso(tx.now),
    }


def change_thing(
    tx: Change, thing: Thing, description: str | None, metadata: dict[str, Any]
) -> Thing:
    """Store what a thing is, unless it is that already; return it."""
    if (thing.description, thing.metadata) == (description, json.loads(json.dumps(metadata))):
        return thing
    return things.update_thing(tx, thing.id, description=description, metadata=metadata)


def uninstall_toolset(tx: Change, space: Thing) -> None:
    """Delete a toolset with all it has.

    Its contents stay as long as something names them, and the log keeps its calls.
    """
    for tool in things.read_children(tx.conn, space.id, "tool"):
        overrides.clear_override(tx, tool)
    for server_id in _list_server_ids(space):
        overrides.clear_namespace(tx, server_id)
    tx.conn.execute(delete(toolset_files).where(toolset_files.c.toolset_id == space.label))
    namespaces.remove_namespace(tx, space)


def read_decisions(conn: Connection, space: Thing) -> list[overrides.Override]:
    """Return the decisions about tools of a toolset and of its MCP servers."""
    own = [
        overrides.read_tool_override(conn, tool)
        for tool in things.read_children(conn, space.id, "tool")
    ]
    servers = (
        overrides.read_namespace_overrides(conn, server_id) for server_id in _list_server_ids(space)
    )
    return [*own, *chain.from_iterable(servers)]


def merge_overrides(space: Thing, decided: Sequence[overrides.Override]) -> dict[str, Any]:
    """Return the manifest of a toolset with the present decisions about its tools."""
    manifest: dict[str, Any] = json.loads(json.dumps(space.metadata[BUNDLE_KEY]))
    for tool in manifest.get("tools", []):
        tool.pop("renderer", None)
    entries = []
    for one in decided:
        values = {
            "renderer": one.renderer,
            "renderer_config": one.renderer_config,
            "name_override": one.name,
            "description_override": one.description,
            "requires_confirmation": one.requires_confirmation,
            "enabled": one.enabled,
        }
        given = {name: value for name, value in values.items() if value is not None}
        if given:
            entries.append({"tool_id": one.tool.removeprefix(f"{space.label}:"), **given})
    manifest["tool_overrides"] = entries
    return manifest


def store_files(tx: Change, toolset_id: str, files: Sequence[BundleFile]) -> None:
    """Store which files a toolset has, unless it has these already."""
    wanted = [StoredFile(file.path, file.kind, file.sha256, file.size) for file in files]
    if sorted(wanted, key=lambda file: file.path) == read_files(tx.conn, toolset_id):
        return
    tx.conn.execute(delete(toolset_files).where(toolset_files.c.toolset_id == toolset_id))
    tx.conn.execute(
        insert(toolset_files),
        [
            {"toolset_id": toolset_id, "path": file.path, "kind": file.kind,
             "sha256": file.sha256, "size": file.size,
             "stored_path": f"blobs/{file.sha256[:2]}/{file.sha256}"}
            for file in files
        ],
    )  # fmt: skip


def _store_tools(
    tx: Change, space: Thing, bundle: Bundle, tools: Sequence[ToolInfo], by: str
) -> None:
    known = {tool.name: tool for tool in things.read_children(tx.conn, space.id, "tool")}
    for info in tools:
        entry = next(tool for tool in bundle.manifest.tools if tool.id == info.id)
        point = bundle.entrypoints[info.id]
        metadata = {
            PROVIDER_KEY: TOOLSET_PROVIDER,
            "input_schema": info.input_schema,
            "display_name": entry.name or info.title or info.id,
            "title": entry.name or info.title or info.id,
            "entrypoint": entry.entrypoint,
            "module": point.module,
            "path": point.path,
            "function": point.function,
            "manifest_schema": entry.input_schema,
            TREE_KEY: space.metadata[TREE_KEY],
            overrides.CONFIRM_KEY: info.requires_confirmation,
        } | _declare_policies(entry)
        text = info.description
        tool = known.pop(info.id, None)
        if tool is None:
            things.create_thing(
                tx, space.id, "tool", info.id, qualified_name=f"{space.label}:{info.id}",
                description=text, metadata=metadata, created_by=by,
            )  # fmt: skip
        else:
            change_thing(tx, tool, text, metadata)
    for gone in known.values():
        overrides.clear_override(tx, gone)
        things.delete_thing(tx, gone)


def _declare_policies(entry: ToolEntry) -> dict[str, Any]:
    declared = declare_policies(entry.leave_out, entry.leave_out_per_action)
    return {key: value for key, value in declared.items() if value is not None}


def _list_server_ids(space: Thing) -> Iterator[str]:
    """Return the ids of a toolset's MCP servers, the namespaces of their tools."""
    return (server["id"] for server in space.metadata[BUNDLE_KEY].get("mcp_servers", ()))


def _read_overrides_before(space: Thing) -> dict[str, EffectiveOverride]:
    """Return what the manifest of an installed toolset overrides, by tool.

    Nothing, if this version cannot read the manifest: then all that is stored stays.
    """
    try:
        text = json.dumps(space.metadata[BUNDLE_KEY])
        return {
            one.tool_id: one for one in list_overrides(ToolsetManifest.model_validate_json(text))
        }
    except ValidationError:
        return {}


_DECIDED_TOGETHER: Final = (
    ("enabled",), ("name",), ("description",), ("requires_confirmation",),
    ("renderer", "renderer_config"),
)  # fmt: skip
"""Fields of an Override."""


def _store_overrides(
    tx: Change, manifest: ToolsetManifest, before: Mapping[str, EffectiveOverride]
) -> None:
    """Store what a manifest overrides; what people decided stays.

    A field that is as the manifest `before` said is the author's. Tools of MCP servers may not
    exist yet.
    """
    after = {one.tool_id: one for one in list_overrides(manifest)}
    stored = overrides.read_overrides(tx.conn)
    for tool_id in {**before, **after}:
        present = stored.get(tool_id)
        # Earlier versions stored nothing for tools of servers, and people withdrew nothing there.
        old = _to_override(tool_id, before.get(tool_id) if present is not None else None)
        new = _to_override(tool_id, after.get(tool_id))
        changes: dict[str, Any] = {}
        for fields in _DECIDED_TOGETHER:
            then, now, wanted = (
                [getattr(one, field) for field in fields]
                for one in (old, present or overrides.Override(tool_id), new)
            )
            if now == then and now != wanted:
                changes |= zip(fields, wanted, strict=True)
        if changes:
            overrides.set_override(tx, tool_id, **changes)


def _to_override(tool_id: str, entry: EffectiveOverride | None) -> overrides.Override:
    if entry is None:
        return overrides.Override(tool_id)
    renderer = entry.renderer
    config = json.loads(json.dumps(renderer.config)) if renderer is not None else None
    return overrides.Override(
        tool_id,
        enabled=entry.enabled,
        name=entry.name,
        description=entry.description,
        requires_confirmation=entry.requires_confirmation,
        renderer=renderer.name if renderer is not None else None,
        renderer_config=config or None,
    )
