"""Limits of lengths: of files, of functions and of docstrings' first lines."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support.source import nodes, parse

pytestmark = pytest.mark.long

TOP = Path(__file__).parent.parent
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_FIRST_LINE_LETTERS = 79
FILES = sorted(
    file
    for folder in ("src", "tests", "benchmarks", "docs")
    for file in (TOP / folder).rglob("*.py")
    if "node_modules" not in file.parts
)
"""Migrations are left out: one function creates all tables."""


def test_long_files_state_a_reason_in_their_docstring() -> None:
    found = []
    for file in FILES:
        source = file.read_text(encoding="utf-8")
        docstring = " ".join((ast.get_docstring(parse(file)) or "").split())
        is_long = source.count("\n") > MAX_FILE_LINES
        if is_long and "Longer than 400 lines, because" not in docstring:
            found.append(str(file.relative_to(TOP)))
    assert not found


def test_functions_have_at_most_60_lines() -> None:
    found = []
    for file in FILES:
        for node in nodes(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    found.append(f"{file.relative_to(TOP)}: {node.name} has {lines}")
    assert not found


def test_first_lines_of_docstrings_have_at_most_79_letters() -> None:
    found = []
    for file in FILES:
        for node in nodes(file):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                line = (ast.get_docstring(node) or "").partition("\n")[0]
                if len(line) > MAX_FIRST_LINE_LETTERS:
                    name = getattr(node, "name", "module")
                    found.append(f"{file.relative_to(TOP)}: {name}: {line}")
    assert not found
