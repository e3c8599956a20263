"""The rules of plugins: what a worker says of a folder, names, and collisions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sshwarma.common.limits import (
    MAX_PLUGIN_ACTIONS,
    MAX_RESULT_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    MAX_TOOLSET_TOOLS,
    TOOLSET_IMPORT_SECONDS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_name, shorten_text
from sshwarma.sandbox.host import SandboxUser
from sshwarma.sandbox.run import SandboxError
from sshwarma.settings.section import NAME_PATTERN, NAME_RULE
from sshwarma.terminal.escape import escape_controls
from sshwarma.toolsets.input_schema import find_schema_problem
from sshwarma.toolsets.manifest import TOOL_ID_PATTERN, TOOL_ID_RULE
from sshwarma.toolsets.plugin_folder import PluginError, PluginFiles
from sshwarma.toolsets.worker_process import ToolsetCode, WorkerError, Workers, no_sandbox_error
from sshwarma.toolsets.worker_results import read_text
from sshwarma.world.builtin_containers import is_builtin_namespace
from sshwarma.world.leave_out import RETENTION_MODES
from sshwarma.world.tool_names import mcp_tool_name, model_tool_name, plugin_tool_name

SERVER_USER: Final = SandboxUser("plugins")
"""For whom the server reads plugins: nobody of the world."""


@dataclass(frozen=True, slots=True)
class PluginTool:
    """A tool of a plugin.

    Attributes:
        name: after the namespace.
        path: of its file, from `tools/` on.
        module: the internal name of its module.
        confirms: whether a person must allow each call.
        takes_session: whether it gets the session memory.
        retention: how much of its results stays in the context, as keys of its metadata.
    """

    name: str
    path: str
    module: str
    description: str
    input_schema: dict[str, Any]
    confirms: bool
    takes_session: bool
    retention: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin: its folder, its namespace and its tools."""

    folder: str
    namespace: str
    tools: tuple[PluginTool, ...]

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of its tools with the namespace before."""
        return tuple(plugin_tool_name(f"{self.namespace}:{tool.name}") for tool in self.tools)


class TakenNames:
    """The names of tools that a plugin cannot have, with what has each."""

    def __init__(self, builtin: Iterable[str]) -> None:
        """Begin with the canonical names of the program's own tools."""
        self._holders: dict[str, str] = {}
        for label in builtin:
            holder = f"the built-in tool {label}"
            bare = label.partition(":")[2]
            for name in (label, model_tool_name(label), mcp_tool_name(label), bare):
                self._holders[name] = holder

    def claim(self, files: PluginFiles, name: str, path: str) -> None:
        """Take the name of a tool, by `plugin_tool_name`, for a file.

        Raises:
            PluginError: if it is taken, naming both.
        """
        place = files.name_file(path)
        if name in self._holders:
            raise PluginError(
                f"{place}: the tool {name} has the name of {self._holders[name]}. Give it another"
                " function.name, or its plugin another TOOL_NAMESPACE."
            )
        self._holders[name] = f"the tool of {place}"


async def describe_plugins(
    workers: Workers, files: PluginFiles, mounts: Mapping[str, Path], builtin: Iterable[str]
) -> tuple[Plugin, ...]:
    """Let a worker for each plugin describe it, and check what it says.

    Each has a sandbox of its own, so that no plugin can change what another says.

    Args:
        workers: that read them.
        files: the plugins.
        mounts: where the files are.
        builtin: canonical names of the program's own tools.

    Raises:
        PluginError: for the first rule that is broken.
    """
    taken = TakenNames(builtin)
    plugins = []
    for folder in files.folders:
        code = ToolsetCode(folder, "", mounts, ())
        try:
            answer = await workers.ask(
                code, None, "", "plugins/describe", {"folder": folder}, TOOLSET_IMPORT_SECONDS,
                SERVER_USER,
            )  # fmt: skip
        except SandboxError as error:
            refused = no_sandbox_error(error)
            hint = error.obstacle.hint
            raise PluginError(
                f"{files.root}: the plugins cannot be read. {refused} {hint}"
            ) from error
        except WorkerError as error:
            place = files.name_file(f"tools/{folder}")
            raise PluginError(
                f"{place}: the plugin cannot be read: {_show(str(error))}."
            ) from error
        except TimeoutError:
            place, limit = files.name_file(f"tools/{folder}"), f"{TOOLSET_IMPORT_SECONDS:.0f} s"
            raise PluginError(
                f"{place}: the plugin cannot be loaded in {limit}. Do in execute what takes long."
            ) from None
        # In a thread: to check hundreds of schemas takes long.
        said = answer.result
        plugins.append(await asyncio.to_thread(_read_plugin, files, folder, said, taken))
    return tuple(plugins)


def _read_plugin(
    files: PluginFiles, folder: str, said: Mapping[str, Any], taken: TakenNames
) -> Plugin:
    """Return what a worker says of a plugin; it may say anything.

    Raises:
        PluginError: for the first rule that is broken.
    """
    top = f"tools/{folder}/__init__.py"
    namespace, listed, breach = (said.get(key) for key in ("namespace", "tools", "breach"))
    if isinstance(namespace, str):
        _check_namespace(files.name_file(top), namespace)
    tools: list[PluginTool] = []
    for one in listed if isinstance(listed, list) else ():
        if len(tools) == MAX_TOOLSET_TOOLS:
            limit = with_limit("it has too many tools", MAX_TOOLSET_TOOLS)
            raise PluginError(f"{files.name_file(top)}: {limit}.")
        if isinstance(one, dict) and isinstance(namespace, str):
            tool = _read_tool(files, folder, namespace, one)
            taken.claim(files, plugin_tool_name(f"{namespace}:{tool.name}"), tool.path)
            tools.append(tool)
    if isinstance(breach, dict):
        path = str(breach.get("path"))
        place = files.name_file(path if path in files.contents else top)
        raise PluginError(f"{place}: {_show(str(breach.get('reason')))}.")
    if not isinstance(namespace, str):
        raise PluginError(f"{files.name_file(top)}: its description is invalid.")
    return Plugin(folder, namespace, tuple(tools))


def _check_namespace(place: str, namespace: str) -> None:
    """Raise PluginError unless a namespace can have a name."""
    if not NAME_PATTERN.fullmatch(namespace):
        raise PluginError(
            f"{place}: TOOL_NAMESPACE {shorten_name(namespace)!r} cannot be the name of a"
            f" namespace: it must be {NAME_RULE}."
        )
    if is_builtin_namespace(namespace):
        raise PluginError(
            f"{place}: TOOL_NAMESPACE {namespace} is the name of a built-in namespace. Choose"
            " another."
        )


def _read_tool(
    files: PluginFiles, folder: str, namespace: str, said: Mapping[str, Any]
) -> PluginTool:
    """Return what a worker says of a tool; it may say anything.

    Raises:
        PluginError: if it is not as it must be.
    """
    path, name = str(said.get("path")), str(said.get("name"))
    if path not in files.contents or not path.startswith(f"tools/{folder}/"):
        raise PluginError(f"{files.name_file(f'tools/{folder}')}: its description is invalid.")
    place = files.name_file(path)
    if not TOOL_ID_PATTERN.fullmatch(name):
        raise PluginError(
            f"{place}: function.name {shorten_name(name)!r} cannot be the name of a tool: it must"
            f" be {TOOL_ID_RULE}."
        )
    stem = Path(path).stem
    return PluginTool(
        name,
        path,
        f"_custom_{namespace}_{stem}",
        read_text(said.get("description")),
        _read_parameters(place, said.get("parameters")),
        bool(said.get("needs_approval")),
        bool(said.get("takes_session")),
        dict(_read_retention(place, said)),
    )


def _read_parameters(place: str, said: object) -> dict[str, Any]:
    schema = {} if said is None else said
    if not isinstance(schema, dict):
        raise PluginError(f"{place}: function.parameters must be a JSON Schema of an object.")
    schema = {"type": "object", "properties": {}, **schema}
    names = schema["properties"]
    if isinstance(names, dict) and not all(map(str.isprintable, names)):
        raise PluginError(f"{place}: the name of a parameter is not printable.")
    if problem := find_schema_problem(schema):
        raise PluginError(f"{place}: function.parameters cannot be used: {_show(problem)}.")
    return schema


def _read_retention(place: str, said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a module says of its results in the context, as metadata has it.

    Raises:
        PluginError: if a value is not one of those.
    """
    mode, amount = said.get("leave_out"), said.get("short_amount")
    if mode is not None:
        yield "leave_out", _check_mode(place, "LEAVE_OUT", mode)
    if amount is not None:
        yield "short_amount", _check_amount(place, "TOOL_SHORT_AMOUNT", amount)
    actions = said.get("leave_out_per_action")
    if actions is None:
        return
    what = "LEAVE_OUT_PER_ACTION"
    if not isinstance(actions, dict) or len(actions) > MAX_PLUGIN_ACTIONS:
        limit = f"at most {MAX_PLUGIN_ACTIONS} actions"
        raise PluginError(f"{place}: {what} must be a dict of {limit}, each with its mode.")
    modes: dict[str, Any] = {}
    for action, wanted in actions.items():
        name = escape_controls(action)[:MAX_TITLE_CHARACTERS]
        about = f"{what}[{shorten_name(name)!r}]"
        if isinstance(wanted, list) and len(wanted) == 2:
            amount = _check_amount(place, about, wanted[1])
            modes[name] = [_check_mode(place, about, wanted[0]), amount]
        else:
            modes[name] = _check_mode(place, about, wanted)
    yield "leave_out_per_action", modes


def _check_mode(place: str, what: str, value: object) -> str:
    if isinstance(value, str) and value in RETENTION_MODES:
        return value
    modes = ", ".join(RETENTION_MODES)
    got = shorten_name(repr(value))
    raise PluginError(f"{place}: {what}: choose one of: {modes} (got {got}).")


def _check_amount(place: str, what: str, value: object) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, int) and is_number and 1 <= value <= MAX_RESULT_CHARACTERS:
        return value
    got = shorten_name(repr(value))
    raise PluginError(
        f"{place}: {what} must be a number of characters from 1 to {MAX_RESULT_CHARACTERS}"
        f" (got {got})."
    )


def _show(text: str) -> str:
    return shorten_text(escape_controls(text)).rstrip(".")
