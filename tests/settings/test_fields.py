"""Fields of the settings: each one is read by the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from sshwarma.settings import Settings

SOURCE = Path(__file__).parents[2] / "src" / "sshwarma"


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every section in a type, such as `SshSettings` or `tuple[ModelSettings, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


SECTIONS: list[type[BaseModel]] = [
    Settings,
    *(part for field in Settings.model_fields.values() for part in _sections(field.annotation)),
]
FIELDS = [(section.__name__, name) for section in SECTIONS for name in section.model_fields]


def _read_attributes(source: str) -> set[str]:
    """Every attribute that a module reads of something other than its own `self`."""
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }


@pytest.fixture(scope="module")
def read_attributes() -> set[str]:
    """What the program reads, without the settings' own checks."""
    files = [file for file in SOURCE.rglob("*.py") if SOURCE / "settings" not in file.parents]
    return {name for file in files for name in _read_attributes(file.read_text("utf-8"))}


@pytest.mark.parametrize(("section", "name"), FIELDS)
def test_setting_is_read(section: str, name: str, read_attributes: set[str]) -> None:
    assert name in read_attributes, (
        f"nothing reads {name} of {section}: pass the section to its user in app.py"
    )


def test_every_section_is_checked() -> None:
    assert len(SECTIONS) == len(set(SECTIONS)) >= 9


def test_attributes_that_are_only_set_or_own_are_not_read() -> None:
    source = "settings.a\nself.b\nself.limits.c\nsettings.d = 1\ne(settings).f"
    assert _read_attributes(source) == {"a", "c", "f"}


def _bare_numbers(call: ast.Call) -> Iterator[float]:
    """Numbers but 0 and 1 that are typed into a call of `Field`."""
    for node in (*call.args, *(word.value for word in call.keywords)):
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and type(part.value) in (int, float):
                yield from [part.value] if part.value not in (0, 1) else []


def test_bounds_and_defaults_are_constants() -> None:
    found = [
        f"{file.name}:{node.lineno}: {number:g}"
        for file in sorted((SOURCE / "settings").glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Field"
        for number in _bare_numbers(node)
    ]
    assert not found, "put it into common/limits.py, with its reason"
