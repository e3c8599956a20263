"""The verbs of `/plugins`: tools in Python from folders of the server's machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sshwarma.services import services_of
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.toolsets.plugin_folder import PluginError
from sshwarma.toolsets.plugin_records import PluginChange, StoredPlugin
from sshwarma.toolsets.plugins import HOW_TO_LOAD
from sshwarma.verbs.registry import group
from sshwarma.verbs.views import draw_columns, format_count, view, view_for_reader
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.reader import Reader
from sshwarma.world.store import Change

plugins = group(
    "plugins",
    section="Tools",
    default="list",
    doc="""Plugins: tools in Python from folders of the server's machine.

    Each folder of tools/, in the directory where the server was started, is a plugin. They are
    loaded if the server is started with --load-custom-tools, and run in a sandbox.
    """,
)


@dataclass(frozen=True, slots=True)
class PluginItem:
    """A plugin: the name of its folder, how many tools it has, and the folder."""

    name: str
    count: int
    path: str


@dataclass(frozen=True, slots=True)
class PluginList:
    """The plugins that are loaded; None if the server loads none."""

    plugins: tuple[PluginItem, ...] | None


@view_for_reader(PluginList)
def draw_plugin_list(result: PluginList, reader: Reader) -> Block:
    """Draw the plugins, one a line."""
    if result.plugins is None:
        return block(line(f"This server loads no plugins. {HOW_TO_LOAD.text(reader)}"))
    return block(*_draw_plugins(result.plugins))


def _draw_plugins(items: Iterable[PluginItem]) -> list[Line]:
    rows = [
        (("name", item.name), format_count(item.count, "tool"), ("dim", item.path))
        for item in items
    ]
    return draw_columns(rows) if rows else [line("No plugin is there.")]


@dataclass(frozen=True, slots=True)
class PluginsReloaded:
    """The plugins after a reload, and the namespaces that are new, changed and gone."""

    plugins: tuple[PluginItem, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


@view(PluginsReloaded)
def draw_plugins_reloaded(result: PluginsReloaded) -> Block:
    """Draw what changed, and the plugins that are loaded now."""
    known = (("new", result.added), ("changed", result.changed), ("gone", result.removed))
    facts = [f"{word}: {', '.join(names)}" for word, names in known if names]
    text = f"Reloaded the plugins ({'; '.join(facts) or 'nothing changed'})."
    return block(line(text), *_draw_plugins(result.plugins))


@plugins.verb("list", needs=Right.ENTER, tool=False, examples=("/plugins list",))
async def list_loaded_plugins(caller: Caller) -> PluginList:
    """List the plugins that are loaded, with their folders."""
    found = await services_of(caller).toolsets.plugins.list()
    return PluginList(None if found is None else describe_plugins(found))


@plugins.verb("reload", needs=Right.ADMIN, tool=False, examples=("/plugins reload",))
async def reload_plugins(caller: Caller) -> PluginsReloaded:
    """Load the plugins again.

    If one of them breaks a rule, all stay as they are. Calls that run go on.
    """

    async def store(work: Callable[[Change], PluginChange]) -> PluginChange:
        current = await caller.refreshed()
        await current.require(Right.ADMIN)
        return await current.change(work)

    try:
        done = await services_of(caller).toolsets.plugins.reload(store)
    except PluginError as error:
        raise Invalid(f"The plugins stay as they were. {error}") from error
    change = done.change
    return PluginsReloaded(
        describe_plugins(done.plugins), change.added, change.changed, change.removed
    )


def describe_plugins(found: Iterable[StoredPlugin]) -> tuple[PluginItem, ...]:
    """Return plugins as results have them."""
    return tuple(PluginItem(one.folder, len(one.tools), one.path) for one in found)
