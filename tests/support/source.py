"""Source files as syntax trees, each parsed once per process for all tests."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


def parse(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    root = nodes(file)[0]
    assert isinstance(root, ast.Module)
    return root


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file, outer ones before inner ones."""
    return nodes_of_text(file.read_text(encoding="utf-8"))


@cache
def nodes_of_text(source: str) -> tuple[ast.AST, ...]:
    """Return every node of Python source, outer ones before inner ones."""
    return tuple(ast.walk(ast.parse(source)))
