"""Private names of libraries stand in fence files only, each with a shape test.

A fence is the one file that may use what a library does not promise to keep. Everything else in
`src` uses public names, its own private names, and those of its own base classes.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from support.source import nodes

pytestmark = pytest.mark.long

SRC = Path(__file__).parent.parent / "src"

FENCES = {
    "sshwarma.common._asyncio_subprocess": "test_asyncio_subprocess_shape.py",
    "sshwarma.mcp._sdk": "test_sdk_shape.py",
    "sshwarma.mcp.client.sdk._httpx": "test_httpx_shape.py",
    "sshwarma.ssh.transport._asyncssh": "test_asyncssh_shape.py",
    "sshwarma.web._uvicorn": "test_uvicorn_shape.py",
}
INTERNAL_MODULES = ("uvicorn.protocols",)
"""Modules without an underscore that their library does not document."""

DOCUMENTED = {"os._exit", "limits._asdict"}
"""Public functions of the standard library, and of named tuples, that begin with an underscore."""


def _name_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name_of(path): path for path in sorted((SRC / "sshwarma").rglob("*.py"))}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and not name.endswith("_")


def _defined(within: Iterable[ast.AST]) -> set[str]:
    """Private names that classes define: methods, variables, attributes of `self`."""
    found = set()
    for node in within:
        match node:
            case ast.ClassDef():
                for inner in node.body:
                    match inner:
                        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                            found.add(inner.name)
                        case ast.Assign():
                            found |= {t.id for t in inner.targets if isinstance(t, ast.Name)}
                        case ast.AnnAssign(target=ast.Name(id=name)):
                            found.add(name)
            case ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self" | "cls")):
                found.add(node.attr)
    return {name for name in found if _is_private(name)}


@cache
def _classes(module: str) -> dict[str, type]:
    loaded = importlib.import_module(module)
    return {
        name: kind
        for name, kind in vars(loaded).items()
        if inspect.isclass(kind) and kind.__module__ == module
    }


@cache
def _defined_in(module: str) -> set[str]:
    return _defined(nodes(MODULES[module]))


def _inherited(module: str) -> set[str]:
    """What base classes of ours define elsewhere; fences hand down no private name."""
    bases = {
        base.__module__
        for kind in _classes(module).values()
        for base in kind.__mro__
        if base.__module__ in MODULES and base.__module__ not in (module, *FENCES)
    }
    return {name for base in bases for name in _defined_in(base)}


def _used(within: Iterable[ast.AST]) -> Iterator[tuple[int, str, str]]:
    """(line, private name, how it is written) of attributes, by dot or by getattr."""
    for node in within:
        match node:
            case ast.Attribute() if _is_private(node.attr):
                yield node.lineno, node.attr, ast.unparse(node)
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ) if _is_private(name):
                yield node.lineno, name, ast.unparse(node)


OUTSIDE = [module for module in MODULES if module not in FENCES and "__main__" not in module]


def test_private_attributes_are_defined_by_the_file_or_its_own_base_classes() -> None:
    foreign = []
    for module in OUTSIDE:
        used = [use for use in _used(nodes(MODULES[module])) if use[2] not in DOCUMENTED]
        known = _defined_in(module) | (_inherited(module) if used else set())
        foreign += [f"{module}:{line}: {text}" for line, name, text in used if name not in known]
    assert not foreign


def _foreign_bases(kind: type) -> list[type]:
    return [
        base
        for base in kind.__mro__
        if base.__module__ not in MODULES and base.__module__ != "builtins"
    ]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


@cache
def _attributes(base: type) -> frozenset[str]:
    """The attributes that a foreign class has, or that its methods read or set."""
    functions = [inspect.unwrap(value) for value in vars(base).values() if callable(value)]
    found = set(vars(base))
    for function in functions:
        if isinstance(function, FunctionType):
            for code in _codes(function.__code__):
                found |= {
                    step.argval
                    for step in dis.get_instructions(code)
                    if step.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")
                }
    return frozenset(found)


def test_subclass_shares_no_private_name_with_its_library() -> None:
    """By intent (an override) or by accident: both change what the library does."""
    shared = []
    for module in OUTSIDE:
        kinds = (node for node in nodes(MODULES[module]) if isinstance(node, ast.ClassDef))
        for node in (kind for kind in kinds if kind.name in _classes(module)):
            bases = _foreign_bases(_classes(module)[node.name])
            names = _defined(ast.walk(node))
            shared += [
                f"{module}.{node.name}.{name} is {base.__module__}.{base.__qualname__}.{name}"
                for base in bases
                for name in names
                if name in _attributes(base)
            ]
    assert not shared


def test_no_private_name_is_imported() -> None:
    wrong = []
    for module in OUTSIDE:
        imported = []
        for node in nodes(MODULES[module]):
            if isinstance(node, ast.Import):
                imported += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported += [f"{node.module}.{alias.name}" for alias in node.names]
        wrong += [
            f"{module}: {name}"
            for name in imported
            if any(map(_is_private, name.split("."))) and not name.startswith(tuple(FENCES))
        ]
        wrong += [f"{module}: {name}" for name in imported if name.startswith(INTERNAL_MODULES)]
    assert not wrong


@pytest.mark.parametrize("module", FENCES)
def test_fence_has_a_shape_test(module: str) -> None:
    assert module in MODULES
    assert list(Path(__file__).parent.rglob(FENCES[module]))


def test_every_private_module_is_a_fence() -> None:
    private = {module for module in MODULES if _is_private(module.rpartition(".")[2])}
    assert private == set(FENCES)
