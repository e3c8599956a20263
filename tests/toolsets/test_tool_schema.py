"""Schemas of tools, which a worker makes from functions."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

FILE = Path(__file__).parents[2] / "embedded" / "toolset" / "tool_schema.py"


def draw(
    digit: Annotated[int, Field(ge=1, le=9, description="one digit")],
    word: Annotated[str, Field(max_length=5)] = "tea",
    sign: str = Field("x", description="of the field"),
) -> None:
    """Draw.

    Args:
        digit: of the docstring.
        word: what is drawn.
        sign: of the docstring.
    """


def read_properties(function: Any) -> dict[str, Any]:
    """The module is not part of the package: it is mounted into sandboxes."""
    spec = importlib.util.spec_from_file_location("tool_schema", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    properties: dict[str, Any] = module.ToolFunction(function, None, is_described=True).schema[
        "properties"
    ]
    return properties


def test_description_of_an_annotation_goes_before_the_docstring() -> None:
    properties = read_properties(draw)
    assert properties["digit"] == {
        "type": "integer", "minimum": 1, "maximum": 9, "description": "one digit",
    }  # fmt: skip
    assert properties["word"] == {
        "type": "string", "maxLength": 5, "default": "tea", "description": "what is drawn.",
    }  # fmt: skip
    assert properties["sign"]["description"] == "of the field"
