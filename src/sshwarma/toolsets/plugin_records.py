"""Plugins as the world stores them: a toolset for each namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from sshwarma.common.times import format_iso
from sshwarma.tools.provider import PROVIDER_KEY
from sshwarma.toolsets.plugin_folder import PluginError, PluginFiles, plugin_path
from sshwarma.toolsets.plugin_rules import PLUGIN_RULES, Plugin, PluginTool
from sshwarma.toolsets.records import (
    TOOLSET_PROVIDER,
    change_thing,
    is_plugin,
    list_toolsets,
    store_files,
    uninstall_toolset,
)
from sshwarma.toolsets.stored_keys import (
    PACKAGES_KEY,
    PLUGIN,
    PLUGINS_KEY,
    SOURCE_REF_KEY,
    SOURCE_TYPE_KEY,
    TREE_KEY,
)
from sshwarma.world import namespaces, overrides, things
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.errors import WorldError
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.tool_names import PLUGIN_NAME_KEY, plugin_tool_name

SESSION_KEY: Final = "takes_session"
"""Key of the metadata of a tool of a plugin: whether it gets the session memory."""

_DECIDED_KEYS: Final = ("keywords", "required_states")
"""Keys of the metadata of a tool that people set: what they decided stays."""

_OWN_TREE_KEY: Final = "own_tree"
"""Key of the metadata of a toolset of plugins: the hash of their own files."""

_RULES_KEY: Final = "plugin_rules"
"""Key of the metadata of a toolset of plugins: by which rules they were described."""


@dataclass(frozen=True, slots=True)
class StoredTool:
    """A tool of an installed plugin: its name by `plugin_tool_name`, and its file."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class StoredPlugin:
    """An installed plugin, as its toolset has it.

    Attributes:
        folder: the name of its folder.
        namespace: of its tools, perhaps with those of other plugins.
        path: its folder on the server's machine.
        tools: in the order in which they were loaded.
    """

    folder: str
    namespace: str
    path: str
    tools: tuple[StoredTool, ...]


@dataclass(frozen=True, slots=True)
class PluginChange:
    """What a load has changed: namespaces that are new, changed and gone."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether all is as before."""
        return not (self.added or self.changed or self.removed)


def list_plugin_toolsets(conn: Connection) -> list[Thing]:
    """Return the toolsets that are made of plugins, by name."""
    return [space for space in list_toolsets(conn) if is_plugin(space)]


def list_plugins(conn: Connection) -> tuple[StoredPlugin, ...]:
    """Return the installed plugins in the order in which they were loaded."""
    found = [
        StoredPlugin(
            one["folder"], space.label, one["path"],
            tuple(StoredTool(*tool) for tool in one["tools"]),
        )
        for space in list_plugin_toolsets(conn)
        for one in space.metadata[PLUGINS_KEY]
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: one.folder))


def is_installed(conn: Connection, files: PluginFiles) -> bool:
    """Return whether just these files are installed.

    They are not if another version of the program described them.
    """
    spaces = list_plugin_toolsets(conn)
    expected = (files.tree, files.name_file(""), PLUGIN_RULES)
    folders = tuple(one.folder for one in list_plugins(conn))
    return folders == files.folders and all(
        tuple(map(space.metadata.get, (TREE_KEY, SOURCE_REF_KEY, _RULES_KEY))) == expected
        for space in spaces
    )


def store_plugins(tx: Change, files: PluginFiles, plugins: Sequence[Plugin]) -> PluginChange:
    """Install plugins in place of those that are installed.

    What people decided about a tool stays as long as there is such a tool.

    Raises:
        PluginError: if a namespace is taken.
    """
    wanted: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        wanted.setdefault(plugin.namespace, []).append(plugin)
    present = {space.label: space for space in list_plugin_toolsets(tx.conn)}
    gone = sorted(present.keys() - wanted.keys())
    for name in gone:
        uninstall_toolset(tx, present[name])
    added, changed = [], []
    for name, group in wanted.items():
        if name not in present:
            added.append(name)
        is_changed = _store_namespace(tx, files, name, group)
        if is_changed and name in present:
            changed.append(name)
    return PluginChange(tuple(added), tuple(changed), tuple(gone))


def set_available(tx: Change, *, is_available: bool) -> None:
    """Make the tools of all plugins available, or not."""
    for space in list_plugin_toolsets(tx.conn):
        for tool in things.read_children(tx.conn, space.id, "tool"):
            if tool.available != is_available:
                things.update_thing(tx, tool.id, available=int(is_available))


def _store_namespace(tx: Change, files: PluginFiles, name: str, group: Sequence[Plugin]) -> bool:
    """Store a namespace with the tools of its plugins; return whether it changed."""
    space = _find_or_create(tx, files, name, group[0].folder)
    metadata = {
        **space.metadata,
        BUNDLE_KEY: {"id": name, "name": name, "tools": []},
        "display_name": name,
        "title": name,
        "version": "",
        SOURCE_TYPE_KEY: PLUGIN,
        SOURCE_REF_KEY: files.name_file(""),
        TREE_KEY: files.tree,
        PACKAGES_KEY: "",
        _RULES_KEY: PLUGIN_RULES,
        PLUGINS_KEY: [_describe(files, plugin) for plugin in group],
        _OWN_TREE_KEY: files.hash_folders([plugin.folder for plugin in group]),
    }
    # With each namespace are the files of all plugins, which may import each other.
    seen = (PLUGINS_KEY, _OWN_TREE_KEY)
    is_changed = [metadata[key] for key in seen] != [space.metadata.get(key) for key in seen]
    if is_changed:
        metadata["installed_at"] = format_iso(tx.now)
    space = change_thing(tx, space, space.description, metadata)
    store_files(tx, name, files.files)
    known = {tool.name: tool for tool in things.read_children(tx.conn, space.id, "tool")}
    for tool in (tool for plugin in group for tool in plugin.tools):
        _store_tool(tx, space, tool, known.pop(tool.name, None))
    for gone in known.values():
        overrides.clear_override(tx, gone)
        things.delete_thing(tx, gone)
    return is_changed


def _find_or_create(tx: Change, files: PluginFiles, name: str, folder: str) -> Thing:
    """Return the toolset of a namespace; a new one is loaded everywhere.

    Raises:
        PluginError: if something else has its name.
    """
    place = files.name_file(plugin_path(folder, "__init__.py"))
    known = things.find_by_qualified_name(tx.conn, name)
    if known is not None and known.deleted_at is None:
        if is_plugin(known):
            return known
        raise PluginError(
            f"{place}: TOOL_NAMESPACE {name} is the name of"
            f" {things.describe_kind(known.kind)} of this world. Choose another, or rename that."
        )
    try:
        space = namespaces.create_namespace(tx, name, None, f"Tools of the plugin {name}")
    except WorldError as error:
        raise PluginError(f"{place}: TOOL_NAMESPACE {name}: {error}") from error
    return things.update_thing(tx, space.id, auto_load=1)


def _describe(files: PluginFiles, plugin: Plugin) -> dict[str, Any]:
    tools = zip(plugin.tool_names, plugin.tools, strict=True)
    return {
        "folder": plugin.folder,
        "path": files.name_file(plugin_path(plugin.folder)),
        "tools": [[name, tool.path] for name, tool in tools],
    }


def _store_tool(tx: Change, space: Thing, tool: PluginTool, known: Thing | None) -> None:
    label = f"{space.label}:{tool.name}"
    before: Mapping[str, Any] = known.metadata if known is not None else {}
    decided = {key: before[key] for key in _DECIDED_KEYS if key in before}
    metadata = {
        PROVIDER_KEY: TOOLSET_PROVIDER,
        PLUGIN_NAME_KEY: plugin_tool_name(label),
        SESSION_KEY: tool.takes_session,
        "input_schema": tool.input_schema,
        "display_name": tool.name,
        "title": tool.name,
        "entrypoint": f"{tool.path}:execute",
        "module": tool.module,
        "path": tool.path,
        "function": "execute",
        "manifest_schema": None,
        TREE_KEY: space.metadata[TREE_KEY],
        overrides.CONFIRM_KEY: tool.confirms,
        **tool.retention,
        **decided,
    }
    if known is None:
        things.create_thing(
            tx, space.id, "tool", tool.name, qualified_name=label,
            description=tool.description, metadata=metadata,
        )  # fmt: skip
        return
    changed = change_thing(tx, known, tool.description, metadata)
    if not changed.available:
        things.update_thing(tx, known.id, available=1)
