"""Which verbs a test uses from end to end, and finding that out without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

covers = pytest.mark.covers


def covered(folder: Path) -> Iterator[tuple[str, str]]:
    """Every verb named in a `@covers(...)` under a folder, with the source of that test."""
    for file in sorted(folder.rglob("test_*.py")):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "covers":
                    body = "\n".join(ast.unparse(statement) for statement in node.body)
                    for argument in mark.args:
                        yield ast.literal_eval(argument), body
