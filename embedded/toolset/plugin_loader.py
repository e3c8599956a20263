"""Plugin folders in the worker: their rules, and calls of their `execute`.

Nothing of a plugin counts here as checked: the server reads what this says as it reads a stranger.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import inspect
import json
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from types import ModuleType
from typing import Any


class PluginBreach(Exception):
    """A rule that a plugin breaks: in which file, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


class SessionMemory(MutableMapping[str, str]):
    """The session memory as a tool has it: texts by their keys."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """Begin with the values of the room."""
        self._values = dict(values)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __setitem__(self, key: str, value: str) -> None:
        for what, one in (("key", key), ("value", value)):
            if not isinstance(one, str):
                kind = type(one).__name__
                raise TypeError(f"session memory has text alone: a {what} is {kind} (key {key!r})")
        self._values[key] = value

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)


def describe_plugin(top: Path, folder: str) -> dict[str, Any]:
    """Load a plugin folder; return its tools, and the first rule that it breaks.

    Args:
        top: the directory that has the folder of plugins.
        folder: the plugin's folder, from there, such as `tools/moltbook`.
    """
    found: dict[str, Any] = {"namespace": None, "tools": [], "breach": None}
    path = f"{folder}/__init__.py"
    try:
        name = Path(folder).name
        package = _load(top, path, f"_custom_{name}")
        namespace = getattr(package, "TOOL_NAMESPACE", None)
        if not isinstance(namespace, str):
            was = "is missing" if namespace is None else f"is no text ({namespace!r:.60})"
            right = f'write TOOL_NAMESPACE = "{name}" in it'
            raise PluginBreach(path, f"TOOL_NAMESPACE {was}: {right}")
        found["namespace"] = namespace
        for file in sorted(top.joinpath(folder).glob("*.py"), key=lambda one: one.name):
            if file.name == "__init__.py" or not file.is_file():
                continue
            path = f"{folder}/{file.name}"
            module = _load(top, path, f"_custom_{namespace}_{file.stem}")
            if hasattr(module, "DEFINITION"):
                place = {"path": path, "module": module.__name__}
                found["tools"].append({**_describe_tool(path, module), **place})
    except PluginBreach as breach:
        found["breach"] = {"path": breach.path, "reason": breach.reason}
    return found


def _load(top: Path, path: str, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, top / path)
    assert spec is not None and spec.loader is not None  # noqa: S101 - for mypy
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        where = _find_place(error, top)
        raise PluginBreach(
            path, f"it cannot be loaded: {describe_last_line(error)}{where}"
        ) from error
    return module


def _find_place(error: BaseException, top: Path) -> str:
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        path = Path(error.filename)
        if path.is_relative_to(top):
            return f" ({path.relative_to(top)}, line {error.lineno})"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(top):
            return f" ({path.relative_to(top)}, line {frame.lineno})"
    return ""


def _describe_tool(path: str, module: ModuleType) -> dict[str, Any]:
    if not callable(getattr(module, "execute", None)):
        text = "it has DEFINITION and no function execute: write def execute(args, session_data)"
        raise PluginBreach(path, text)
    _check_parameters(path, module.execute)
    try:
        definition = copy.deepcopy(module.DEFINITION)
    except Exception as error:
        raise PluginBreach(
            path, f"DEFINITION cannot be copied: {describe_last_line(error)}"
        ) from error
    function = definition.get("function") if isinstance(definition, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        text = (
            'DEFINITION has no function.name: write {"type": "function", "function": {"name": …}}'
        )
        raise PluginBreach(path, text)
    described = {
        "name": name,
        "description": function.get("description"),
        "parameters": function.get("parameters"),
        "leave_out": getattr(module, "LEAVE_OUT", None),
        "short_amount": getattr(module, "TOOL_SHORT_AMOUNT", None),
        "leave_out_per_action": getattr(module, "LEAVE_OUT_PER_ACTION", None),
        "needs_approval": may_be_true(getattr(module, "needs_approval", None)),
        "takes_session": _takes_session(module.execute),
    }
    try:
        json.dumps(described, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise PluginBreach(path, f"DEFINITION is not JSON: {describe_last_line(error)}") from error
    return described


def _check_parameters(path: str, function: Callable[..., Any]) -> None:
    """Raise PluginBreach if every call of `execute` would fail by its parameters."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # it has no signature
        return
    given, named = bind_arguments(function, None, None, None)
    try:
        signature.bind(*given, **named)
    except TypeError as error:
        text = f"execute cannot be called: {error}. It gets args, session_data, special_resources"
        raise PluginBreach(path, text) from error


def _takes_session(function: Callable[..., Any]) -> bool:
    marker = object()
    given, named = bind_arguments(function, None, marker, None)
    return any(value is marker for value in (*given, *named.values()))


def may_be_true(function: object) -> bool:
    """Return whether a function may return something true, or another value is true.

    A function may not if each of its returns is a constant that is false.
    """
    if not callable(function):
        try:
            return bool(function)
        except Exception:  # noqa: BLE001 - rather a question too many
            return True
    try:
        found = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return True
    if not isinstance(found, ast.FunctionDef) or found.decorator_list:
        return True
    nodes = list(ast.walk(found))
    if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes):
        return True
    values = [node.value for node in nodes if isinstance(node, ast.Return)]
    return any(
        not (value is None or (isinstance(value, ast.Constant) and not value.value))
        for value in values
    )


def call_plugin(
    tool: Mapping[str, Any],
    top: Path,
    arguments: Mapping[str, Any],
    session_data: Mapping[str, Any],
    special_resources: Mapping[str, Any],
) -> Any:
    """Load the module of a tool and return what its `execute` returns.

    Args:
        tool: its path, and the internal name of its module.
        top: the directory that has the folder of plugins.
        arguments: of the call.
        session_data: the second argument; the tool changes its memory.
        special_resources: the third argument, for those who take it.

    Raises:
        PluginBreach: if the module cannot be loaded.
        BaseException: what the tool raises.
    """
    module = _load(top, tool["path"], tool["module"])
    values = (arguments, session_data, special_resources)
    given, named = bind_arguments(module.execute, *values)
    return module.execute(*given, **named)


def bind_arguments(function: Callable[..., Any], *values: Any) -> tuple[list[Any], dict[str, Any]]:
    """Choose what `execute` gets of `args`, `session_data` and `special_resources`.

    A third parameter that has a default and another name keeps its default. Parameters that can
    be given by name alone get what their names say.
    """
    names = ("args", "session_data", "special_resources")
    given: list[Any] = []
    named: dict[str, Any] = {}
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):  # it has no signature
        return [values[0]], named
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += values[len(given) : 2]
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.name in names:
                named[parameter.name] = values[names.index(parameter.name)]
        elif parameter.kind is parameter.VAR_KEYWORD:
            if not given and not named:
                named = dict(zip(names[:2], values, strict=False))
        elif len(given) < len(values):
            is_own = parameter.default is not parameter.empty and parameter.name not in names
            if len(given) < 2 or not is_own:
                given.append(values[len(given)])
    return given, named


def list_changes(before: Mapping[str, str], session_data: object) -> dict[str, Any]:
    """Return what a tool has changed in the session memory.

    Raises:
        TypeError: if a key or a value is not text.
    """
    memory = session_data.get("memory") if isinstance(session_data, dict) else None
    if not isinstance(memory, Mapping):
        raise TypeError('session_data["memory"] is no mapping any more')
    try:
        after = dict(memory)
    except Exception as error:
        raise TypeError(f'session_data["memory"] cannot be read: {error}') from error
    checked = SessionMemory({})
    for key, value in after.items():
        checked[key] = value
    return {
        "set": {key: value for key, value in checked.items() if before.get(key) != value},
        "delete": [key for key in before if key not in checked],
    }


def describe_last_line(error: BaseException) -> str:
    """Return the last line of a traceback."""
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


def describe_traceback(error: BaseException, top: Path) -> str:
    """Return a traceback from the first place that is in the files of plugins."""
    frames = error.__traceback__
    while frames is not None and not Path(frames.tb_frame.f_code.co_filename).is_relative_to(top):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()
