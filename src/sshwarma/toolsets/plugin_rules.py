"""The rules of plugins: what a worker says of a folder, names, and collisions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sshwarma import __version__
from sshwarma.common.limits import (
    MAX_RESULT_CHARACTERS,
    MAX_RETENTION_ACTIONS,
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
from sshwarma.toolsets.manifest import MAX_ENTRYPOINT_CHARACTERS, TOOL_ID_PATTERN, TOOL_ID_RULE
from sshwarma.toolsets.plugin_folder import PluginError, PluginFiles, plugin_path
from sshwarma.toolsets.worker_process import ToolsetCode, WorkerError, Workers, no_sandbox_error
from sshwarma.toolsets.worker_results import read_text
from sshwarma.world.builtin_containers import is_builtin_namespace
from sshwarma.world.leave_out import (
    LEAVE_OUT_KEY,
    PER_ACTION_KEY,
    SHORT_AMOUNT_KEY,
    check_action,
    declare_policies,
    parse_policy,
)
from sshwarma.world.tool_names import mcp_tool_name, model_tool_name, plugin_tool_name

SERVER_USER: Final = SandboxUser("plugins")
"""For whom the server reads plugins: nobody of the world."""

PLUGIN_RULES: Final = f"{__version__}/1"
"""Version of what is read of plugins and stored: the program's, and a number.

Installed plugins that another version has described are described again, even if their files are
the same. The number grows when that changes between two versions of the program.
"""


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
        params = {"folder": plugin_path(folder)}
        try:
            answer = await workers.ask(
                code, None, "", "plugins/describe", params, TOOLSET_IMPORT_SECONDS,
                SERVER_USER,
            )  # fmt: skip
        except SandboxError as error:
            refused = no_sandbox_error(error)
            hint = error.obstacle.hint
            raise PluginError(
                f"{files.root}: the plugins cannot be read. {refused} {hint}"
            ) from error
        except WorkerError as error:
            place = files.name_file(plugin_path(folder))
            raise PluginError(
                f"{place}: the plugin cannot be read: {_show(str(error))}."
            ) from error
        except TimeoutError:
            place, limit = files.name_file(plugin_path(folder)), f"{TOOLSET_IMPORT_SECONDS:.0f} s"
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
    top = plugin_path(folder, "__init__.py")
    namespace, listed, breach = (said.get(key) for key in ("namespace", "tools", "breach"))
    if isinstance(namespace, str):
        _check_namespace(files.name_file(top), namespace)
    tools: list[PluginTool] = []
    for one in listed if isinstance(listed, list) else ():
        if len(tools) == MAX_TOOLSET_TOOLS:
            limit = with_limit("it has too many tools", MAX_TOOLSET_TOOLS)
            raise PluginError(f"{files.name_file(top)}: {limit}.")
        if isinstance(one, dict) and isinstance(namespace, str):
            tool = _read_tool(files, folder, one)
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


def _read_tool(files: PluginFiles, folder: str, said: Mapping[str, Any]) -> PluginTool:
    """Return what a worker says of a tool; it may say anything.

    Raises:
        PluginError: if it is not as it must be.
    """
    path, name, module = (str(said.get(key)) for key in ("path", "name", "module"))
    is_own = path in files.contents and path.startswith(plugin_path(folder) + "/")
    if not is_own or not module.isprintable() or len(module) > MAX_ENTRYPOINT_CHARACTERS:
        raise PluginError(f"{files.name_file(plugin_path(folder))}: its description is invalid.")
    place = files.name_file(path)
    if not TOOL_ID_PATTERN.fullmatch(name):
        raise PluginError(
            f"{place}: function.name {shorten_name(name)!r} cannot be the name of a tool: it must"
            f" be {TOOL_ID_RULE}."
        )
    return PluginTool(
        name,
        path,
        module,
        read_text(said.get("description")),
        _read_parameters(place, said.get("parameters")),
        bool(said.get("needs_approval")),
        bool(said.get("takes_session")),
        _read_retention(place, said),
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


def _read_retention(place: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a module says of its results in the context, as metadata has it.

    Raises:
        PluginError: if a value is not one of those.
    """
    mode, amount = said.get(LEAVE_OUT_KEY), said.get(SHORT_AMOUNT_KEY)
    if amount is not None:
        _check_amount(place, "TOOL_SHORT_AMOUNT", amount)
        if mode is None:
            raise PluginError(
                f"{place}: TOOL_SHORT_AMOUNT says nothing without LEAVE_OUT. Write LEAVE_OUT ="
                ' "SHORT" beside it.'
            )
    policy = None if mode is None else _read_policy(place, "LEAVE_OUT", mode, amount)
    return declare_policies(policy, _read_actions(place, said.get(PER_ACTION_KEY)))


def _read_actions(place: str, said: object) -> dict[str, str]:
    """Return the policies of actions, as people write them.

    Raises:
        PluginError: if one is not a policy, or there are too many.
    """
    what = "LEAVE_OUT_PER_ACTION"
    actions = {} if said is None else said
    if not isinstance(actions, dict) or len(actions) > MAX_RETENTION_ACTIONS:
        limit = f"at most {MAX_RETENTION_ACTIONS} actions"
        raise PluginError(f"{place}: {what} must be a dict of {limit}, each with its mode.")
    policies = {}
    for action, wanted in actions.items():
        name = escape_controls(action)[:MAX_TITLE_CHARACTERS]
        about = f"{what}[{shorten_name(name)!r}]"
        try:
            check_action(action)
        except ValueError as error:
            raise PluginError(f"{place}: {about}: {error}.") from None
        mode, amount = wanted if isinstance(wanted, list) and len(wanted) == 2 else (wanted, None)
        if amount is not None:
            _check_amount(place, about, amount)
        policies[action] = _read_policy(place, about, mode, amount)
    return policies


def _read_policy(place: str, what: str, mode: object, amount: object) -> str:
    """Return a policy as people write it; the amount counts for SHORT alone.

    Raises:
        PluginError: if it is not one.
    """
    text = f"SHORT {amount}" if mode == "SHORT" and amount is not None else mode
    try:
        return str(parse_policy(text if isinstance(text, str) else ""))
    except ValueError as error:
        got = shorten_name(repr(mode))
        raise PluginError(f"{place}: {what}: {error} (got {got}).") from None


def _check_amount(place: str, what: str, value: object) -> None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, int) and is_number and 1 <= value <= MAX_RESULT_CHARACTERS:
        return
    got = shorten_name(repr(value))
    raise PluginError(
        f"{place}: {what} must be a number of characters from 1 to {MAX_RESULT_CHARACTERS}"
        f" (got {got})."
    )


def _show(text: str) -> str:
    return shorten_text(escape_controls(text)).rstrip(".")
