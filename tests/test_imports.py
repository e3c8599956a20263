"""Imports of src: no circles, declared packages only, SDKs late."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from support.source import parse

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"

STARTED = ("sshwarma.app", "sshwarma.cli.main")
"""What is imported before the first door listens."""

LATE = (
    *("mcp", "mcp_types", "httpx2", "pydantic_ai", "anthropic", "openai", "numpy", "onnxruntime"),
    *("alembic", "jsonschema", "PIL", "dulwich"),
)
"""Packages that take seconds to import or much memory: imported once they are needed."""


def _name_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name_of(path): path for path in sorted((SRC / "sshwarma").rglob("*.py"))}


@cache
def parse_modules() -> dict[str, ast.Module]:
    """The syntax trees of all modules, by name."""
    return {name: parse(path) for name, path in MODULES.items()}


def _at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported, and not for a type checker alone."""
    yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        children = list(node.orelse)
    for child in children:
        yield from _at_import(child)


def _imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """The dotted names that are imported; of `from a import b` both `a` and `a.b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, "imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _own(module: str, nodes: Iterator[ast.AST]) -> set[str]:
    """Modules of ours that are imported; not the package of a module that is named."""
    names = set(_imported(nodes)) & set(MODULES)
    packages = set()
    for node in ast.walk(parse_modules()[module]):
        if isinstance(node, ast.ImportFrom) and all(
            f"{node.module}.{alias.name}" in MODULES for alias in node.names
        ):
            packages.add(node.module)
    return names - packages - {module}


def test_modules_have_no_circular_imports() -> None:
    """Neither inside functions nor for the type checker alone."""
    graph = {module: _own(module, ast.walk(tree)) for module, tree in parse_modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_no_module_is_imported_by_a_string() -> None:
    """import-linter sees statements only."""
    calls = {
        f"{module}: {ast.unparse(node)}"
        for module, tree in parse_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith(("import_module", "__import__"))
    }
    names = ("'numpy'", "RUNTIME_PACKAGE", "WEIGHTS_PACKAGE")
    expected = [f"sshwarma.tools.embedding: importlib.import_module({name})" for name in names]
    expected.append("sshwarma.tools.piece_similarity: importlib.import_module('numpy')")
    assert sorted(calls) == expected, "packages of an extra alone"


NAMED_IN_STRINGS = [
    ("sshwarma.git.host", "sshwarma.git.worker"),
    ("sshwarma.ssh.transport.admission", "sshwarma.ssh"),  # the name of a logger
    ("sshwarma.terminal.image_decoder", "sshwarma.terminal.image_worker"),
    ("sshwarma.wrap.process", "sshwarma.wrap.worker"),
]
"""Modules with a string, and the module of ours that the string names.

The workers are programs of other processes: to import them here would load the decoders of Pillow,
or Lua, into the server.
"""

OTHER_DOTTED_NAMES = {
    *("sshwarma.agent", "sshwarma.connection", "sshwarma.lock", "sshwarma.term", "sshwarma.toml"),
}
"""Names of files, keys and a protocol in strings; no module has such a name."""


def _dotted_names(tree: ast.Module) -> Iterator[str]:
    """Names such as `sshwarma.app` in strings; docstrings are left out."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = "" if id(node) in docstrings else node.value
            yield from re.findall(r"\bsshwarma(?:\.[a-z_]\w*)+", text)


def test_modules_named_in_strings_can_be_imported() -> None:
    """A process fails to start if the module it names was renamed."""
    named = [
        (module, name)
        for module, tree in parse_modules().items()
        for name in _dotted_names(tree)
        if name not in OTHER_DOTTED_NAMES
    ]
    assert sorted(named) == NAMED_IN_STRINGS
    assert not OTHER_DOTTED_NAMES & set(MODULES)
    for _, name in named:
        assert importlib.import_module(name).__name__ == name


def test_server_start_imports_no_sdk() -> None:
    waiting: list[tuple[str, tuple[str, ...]]] = [(start, (start,)) for start in STARTED]
    seen: set[str] = set()
    while waiting:
        module, way = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        names = set(_imported(_at_import(parse_modules()[module])))
        late = [name for name in names if name.split(".")[0] in LATE]
        assert not late, f"{late} by way of {' -> '.join(way)}"
        parents = {name.rpartition(".")[0] for name in names & set(MODULES)}
        for name in (names | parents) & set(MODULES):
            waiting.append((name, (*way, name)))
    assert len(seen) > 150


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _declared() -> dict[str, str]:
    """Version ranges of the dependencies, and of the extras that we import."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["local"], *extras["postgres"]]
    split = (re.match(r"([\w.-]+)(?:\[.*?\])?(.*)", line) for line in lines)
    return {_canonical(found[1]): found[2] for found in split if found}


def test_imported_packages_are_declared() -> None:
    names = {
        name.split(".")[0]
        for tree in parse_modules().values()
        for name in _imported(ast.walk(tree))
    }
    foreign = names - set(sys.stdlib_module_names) - {"sshwarma"}
    known, declared = packages_distributions(), _declared()
    missing = {
        name for name in foreign if not {_canonical(d) for d in known.get(name, ())} & set(declared)
    }
    assert not missing


@pytest.mark.parametrize("name", ["asyncssh", "httpcore2", "httpx2", "mcp", "mcp-types", "uvicorn"])
def test_library_with_private_names_is_pinned_to_a_minor_release(name: str) -> None:
    found = re.fullmatch(r">=(\d+)\.(\d+)(?:\.\d+)?,<(\d+)\.(\d+)", _declared()[name])
    assert found
    assert (int(found[3]), int(found[4])) == (int(found[1]), int(found[2]) + 1)
