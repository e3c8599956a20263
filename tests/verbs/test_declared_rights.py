"""Rights are declared with verbs and checked in one place; help states them all."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from sshwarma import verbs
from sshwarma.verbs.registry import Verb, every_verb, find_verb
from sshwarma.verbs.rights import DataRight
from support.source import nodes


def test_rights_are_checked_by_dispatch_and_rights_alone() -> None:
    """A right that a body asks for by hand is missing in help, docs and catalogue."""
    for file in sorted(Path(verbs.__file__).parent.glob("*.py")):
        for node in nodes(file):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "caller.require":
                assert file.name in ("dispatch.py", "rights.py"), f"{file.name}:{node.lineno}"
            if file.name == "rights.py":
                continue
            if isinstance(node, ast.Compare) and (right := _compared_right(node)):
                place = f"{file.name}:{node.lineno}"
                assert (file.name, right) in RIGHTS_COMPARED_BY_HAND, f"{place}: Right.{right}"


RIGHTS_COMPARED_BY_HAND = {
    # What a caller may see; none of these refuses a call for a right.
    ("mcp_views.py", "ADMIN"),
    ("mem_access.py", "CREATE"),
    ("resolve.py", "ADMIN"),
    ("sql.py", "ADMIN"),
}


def _compared_right(node: ast.Compare) -> str:
    """The right beyond `enter` and `talk` that a comparison with a Right names.

    A comparison is, for example, `Right.ADMIN in rights`.
    """
    for part in ast.walk(node):
        name = ast.unparse(part) if isinstance(part, ast.Attribute) else ""
        if name.startswith("Right.") and name not in ("Right.ENTER", "Right.TALK"):
            return name.removeprefix("Right.")
    return ""


@pytest.mark.parametrize("declared", list(every_verb()), ids=lambda declared: declared.name)
def test_verb_declares_the_rights_that_its_body_asks_for(declared: Verb) -> None:
    """A body asks for the rights that its verb declares, and for no others.

    Rights named by the functions of verbs/ that it calls count too.
    """
    stated = {rule.text for rule in declared.also_needs if isinstance(rule, DataRight)}
    assert {rule.text for rule in _used_data_rights(declared.run)} == stated


def _used_data_rights(run: Any) -> set[DataRight]:
    """Rights of data named in the body of a function, or of ones in verbs/ it names."""
    found: set[DataRight] = set()
    waiting, seen = [inspect.unwrap(run)], set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        for name in _names_in(function.__code__):
            value = function.__globals__.get(name)
            if isinstance(value, DataRight):
                found.add(value)
            elif inspect.isfunction(value) and value.__module__.startswith(verbs.__name__):
                waiting.append(value)
    return found


def _names_in(code: CodeType) -> set[str]:
    """The names that a function reads, those in its inner functions included."""
    inner = (_names_in(const) for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*inner)


def test_help_states_the_rights_that_dispatch_checks() -> None:
    for name, rights, change_scope in (
        ("vibe", "Needs the enter right, build to set it", "build"),
        ("context window", "Needs the enter right, build to set it", "build"),
        ("stats", "Needs the enter right, admin for all rooms", "read"),
        (
            "equip",
            "Needs the enter right, build for room, admin for defaults and another agent",
            "act",
        ),
        ("put", "Needs the enter right, build for a bag that is not yours", "build"),
        ("exits", "Needs the enter right", "read"),
        ("help", "", "read"),
    ):
        known = find_verb(name)
        assert known is not None
        assert (known.rights, known.change_scope) == (rights, change_scope), name
