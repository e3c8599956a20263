"""Plugins of SLBP in a folder: looked at, and reported. Their code is not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sshwarma.common.limits import MAX_PLUGIN_FILE_BYTES, MAX_PLUGINS
from sshwarma.toolsets.plugin_folder import PLUGINS_FOLDER


@dataclass(frozen=True, slots=True)
class SourcePlugin:
    """A plugin: its folder, namespace and tools, and its problem; "" if it has none."""

    name: str
    namespace: str
    tools: tuple[str, ...]
    problem: str


def find_plugins(folder: Path) -> Iterator[SourcePlugin]:
    """Yield the plugins in the folder `tools`: subfolders with an `__init__.py`."""
    top = folder / PLUGINS_FOLDER
    if top.is_symlink() or not top.is_dir():
        return
    try:
        places = sorted(top.iterdir())[:MAX_PLUGINS]
    except OSError:
        yield SourcePlugin(PLUGINS_FOLDER, "", (), "the folder cannot be read")
        return
    for place in places:
        try:
            if place.is_symlink():
                yield SourcePlugin(place.name, "", (), "it is a link")
            elif place.is_dir() and any(file.name == "__init__.py" for file in place.iterdir()):
                yield _look_at(place)
        except OSError:
            yield SourcePlugin(place.name, "", (), "it cannot be read")


def _look_at(place: Path) -> SourcePlugin:
    """Return what a plugin has."""
    tree = _parse(place / "__init__.py")
    if isinstance(tree, str):
        return SourcePlugin(place.name, "", (), f"__init__.py {tree}")
    namespace = _find_namespace(tree)
    if not namespace:
        return SourcePlugin(place.name, "", (), "__init__.py defines no text TOOL_NAMESPACE")
    tools: list[str] = []
    for file in sorted(place.glob("*.py"))[:MAX_PLUGINS]:
        if file.name == "__init__.py":
            continue
        tree = _parse(file)
        if isinstance(tree, str):
            return SourcePlugin(place.name, namespace, tuple(tools), f"{file.name} {tree}")
        names = _list_names(tree)
        if "DEFINITION" in names:
            tools.append(file.stem)
            if "execute" not in names:
                problem = f"{file.name} has a DEFINITION, and no function execute"
                return SourcePlugin(place.name, namespace, tuple(tools), problem)
    return SourcePlugin(place.name, namespace, tuple(tools), "")


def _parse(file: Path) -> ast.Module | str:
    """Return the syntax of a file, or why it cannot be had."""
    try:
        if file.is_symlink() or not file.is_file():
            return "is no file"
        if file.stat().st_size > MAX_PLUGIN_FILE_BYTES:
            return f"has over {MAX_PLUGIN_FILE_BYTES} bytes"
        return ast.parse(file.read_bytes())
    except OSError:
        return "cannot be read"
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "is not Python"


def _find_namespace(tree: ast.Module) -> str:
    for node in tree.body:
        match node:
            case (
                ast.Assign(
                    targets=[ast.Name(id="TOOL_NAMESPACE")], value=ast.Constant(value=str(text))
                )
                | ast.AnnAssign(
                    target=ast.Name(id="TOOL_NAMESPACE"), value=ast.Constant(value=str(text))
                )
            ):
                return text
    return ""


def _list_names(tree: ast.Module) -> set[str]:
    """Return the names that a module defines at its top."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names.update(alias.asname or alias.name for alias in node.names)
    return names
