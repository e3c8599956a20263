"""Every error of a field of settings or an argument of a verb has plain words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from sshwarma.common.validation_text import UNKNOWN_REQUIREMENT, describe_validation_error
from sshwarma.mcp.server.builtin_tools import UseToolArguments, WaitEventsArguments
from sshwarma.settings import McpSettings, ModelSettings, Settings
from sshwarma.settings.errors import describe_value_error
from sshwarma.toolsets.manifest import ToolsetManifest
from sshwarma.toolsets.renderers import RENDERERS
from sshwarma.verbs.registry import every_verb

WRONG_VALUES: tuple[Any, ...] = (
    None, True, "maybe", "", " ", "x", "x" * 100_000, "\ud800", b"\xff", -1, 0, 1, 2.5, 10**30,
    "9" * 5_000, float("inf"), float("nan"), [], ["x"] * 100, [[]], {}, {"x": {}}, (1, 2), object(),
)  # fmt: skip
"""Values of every type and size: each type of field refuses some of them."""


def sections(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model of settings and those of its sections."""
    yield model
    for field in model.model_fields.values():
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from sections(kind)


MODELS = {
    **{model.__name__: model for model in (UseToolArguments, WaitEventsArguments)},
    **{model.__name__: model for model in RENDERERS.values()},
    **{f"/{verb.name}": verb.model for verb in every_verb()},
    **{
        model.__name__: model
        for root in (Settings, McpSettings, ModelSettings, ToolsetManifest)
        for model in sections(root)
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_error_of_a_field_has_plain_words(name: str) -> None:
    model = MODELS[name]
    for field in (*model.model_fields, "no-such-field"):
        for value in WRONG_VALUES:
            try:
                model.model_validate({field: value})
            except ValidationError as error:
                for detail in error.errors(include_url=False):
                    for text in (describe_validation_error(detail), describe_value_error(detail)):
                        assert UNKNOWN_REQUIREMENT not in text, detail
                        assert "nput should" not in text and "tring should" not in text
                        assert not text.startswith("Value error"), detail


@pytest.mark.parametrize(
    ("detail", "call", "file"),
    [
        ({"type": "bool_parsing", "input": "maybe"}, *["must be true or false (got maybe)"] * 2),
        ({"type": "finite_number", "input": float("inf")}, *["must be a number (got inf)"] * 2),
        (
            {"type": "string_too_short", "input": "", "ctx": {"min_length": 1}},
            *["must not be empty"] * 2,
        ),
        ({"type": "string_type", "input": 3}, "must be text (got 3)",
         "must be a text in quotes (got 3)"),
        ({"type": "dict_type", "input": 3}, "must be an object (got 3)",
         "must be a table (got 3)"),
        ({"type": "less_than", "input": 1.5, "ctx": {"lt": 1.0}},
         *["must be less than 1 (got 1.5)"] * 2),
    ],
)  # fmt: skip
def test_words_of_an_error(detail: dict[str, Any], call: str, file: str) -> None:
    detail["loc"] = ("x",)
    assert describe_validation_error(detail) == call
    assert describe_value_error(detail) == file


def test_text_that_is_too_long_is_not_repeated() -> None:
    detail = {"type": "string_too_long", "input": "k" * 201, "ctx": {"max_length": 200}}
    text = "must have at most 200 characters (got 201)"
    assert describe_validation_error(detail) == text
