"""Probable mistakes in the code of a toolset, for its author."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sshwarma_toolset as runtime
from pydantic import PydanticUserError, TypeAdapter
from tool_schema import INJECTED

_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def find_mistakes(
    function: Callable[..., Any], schema: Mapping[str, Any] | None, top: Path
) -> Iterator[str]:
    """Yield what is odd about a function of a tool, each with file and line.

    Args:
        function: of the tool.
        schema: of the manifest; None if it is made from the function.
        top: the folder of the toolset.
    """
    place, name = find_place(function, top), getattr(function, "__name__", "the function")
    parameters = inspect.signature(function).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    own = {key: one for key, one in parameters.items() if key not in INJECTED}
    if schema is not None:
        named = schema.get("properties")
        names = list(named) if isinstance(named, dict) else []
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        for key in names:
            if key not in parameters and not takes_all:
                yield f"{place}: {name} has no parameter {key}, which its input_schema has"
        for key, one in own.items():
            if one.kind not in _MANY and one.default is one.empty and key not in required:
                yield f"{place}: {name} needs {key}, which its input_schema does not require"
        return
    hints = typing.get_type_hints(function)
    for key, one in own.items():
        if one.kind in _MANY:
            star = "*" if one.kind is one.VAR_POSITIONAL else "**"
            yield f"{place}: {star}{key} of {name} gets no argument: name each parameter"
        elif key not in hints:
            yield f"{place}: {key} of {name} has no type, so that it takes anything"


def find_unlisted(functions: set[Callable[..., Any]], top: Path) -> Iterator[str]:
    """Yield the decorated functions that are no tool.

    Args:
        functions: those of the tools.
        top: the folder of the toolset.
    """
    tools = {(one.__module__, one.__qualname__) for one in functions}
    for marked in runtime.MARKED:
        if marked in functions:
            continue
        place, name = find_place(marked, top), marked.__name__
        if (marked.__module__, marked.__qualname__) in tools:
            yield f"{place}: another function with the name {name} takes the place of this one"
        elif place:
            yield f"{place}: {name} has the decorator of a tool, and toolset.yaml does not list it"


def find_place(function: Callable[..., Any], top: Path) -> str:
    """Return the file and line of a function of the toolset; "" for any other."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = Path(code.co_filename) if code is not None else Path("/")
    if code is None or not path.is_relative_to(top):
        return ""
    return f"{path.relative_to(top)}, line {code.co_firstlineno}"


def find_unusable_parameter(function: Callable[..., Any]) -> str:
    """Return which parameter has a type that no JSON becomes, as a clause; "" if none has."""
    hints = typing.get_type_hints(function, include_extras=True)
    for key in inspect.signature(function).parameters:
        if key in INJECTED or key not in hints:
            continue
        try:
            TypeAdapter(hints[key]).json_schema()
        except PydanticUserError:
            kind = getattr(hints[key], "__name__", str(hints[key]))
            return (
                f"{key} has the type {kind}, which JSON does not have: use str, int, float, bool,"
                " list, dict, Literal, an Enum or a pydantic model"
            )
    return ""
