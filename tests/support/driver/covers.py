"""Which verbs a test uses from end to end, found out without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

covers = pytest.mark.covers


def covered(folder: Path) -> Iterator[tuple[str, str]]:
    """Verbs named in a `@covers(...)` under a folder, with the source of that test."""
    for file in sorted(folder.rglob("test_*.py")):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            marks = [mark for mark in node.decorator_list if _is_covers(mark)]
            if not marks:
                continue
            others = [mark for mark in node.decorator_list if not _is_covers(mark)]
            source = "\n".join(ast.unparse(part) for part in (*others, *node.body))
            for mark in marks:
                for argument in mark.args:
                    yield ast.literal_eval(argument), source


def _is_covers(mark: ast.expr) -> TypeGuard[ast.Call]:
    return (
        isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "covers"
    )
