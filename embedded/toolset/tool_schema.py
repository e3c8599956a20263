"""The schema of a tool from its function, and the arguments of a call from JSON."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

INJECTED = ("workspace", "chat_id", "toolset_id", "context")
"""Parameters that the host gives, and no caller."""


class InvalidArguments(Exception):
    """Arguments that do not fit; a line for each."""


class ToolFunction:
    """A function as a tool: its description, its schema, and how it is called."""

    def __init__(
        self, function: Callable[..., Any], schema: dict[str, Any] | None, *, is_described: bool
    ) -> None:
        """Read a function.

        Args:
            function: of the toolset.
            schema: of the manifest, which counts if there is one.
            is_described: whether its docstring is read, which a call does not need.
        """
        self.function = function
        self.description, self._texts = _read_docstring(function) if is_described else ("", {})
        self._parameters = inspect.signature(function).parameters
        self._model = None if schema is not None else self._make_model()
        self.schema = self._make_schema() if schema is None else schema

    def _make_model(self) -> type[BaseModel]:
        hints = typing.get_type_hints(self.function, include_extras=True)
        fields: dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            if name in INJECTED or parameter.kind in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise TypeError(f"{name} is positional only, and arguments of tools have names")
            default = ... if parameter.default is parameter.empty else parameter.default
            hint = hints.get(name, Any)
            if not isinstance(default, FieldInfo):
                text = None if _has_text(hint) else self._texts.get(name)
                # Also description=None would take the place of the annotation's.
                default = Field(default, description=text) if text else Field(default)
            fields[name] = (hint, default)
        return create_model("Arguments", __config__={"extra": "forbid"}, **fields)

    def _make_schema(self) -> dict[str, Any]:
        schema = self._model.model_json_schema() if self._model is not None else {}
        schema.pop("title", None)
        for field in schema.get("properties", {}).values():
            field.pop("title", None)
        schema.setdefault("properties", {})
        return schema

    def bind(self, arguments: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of a call, with those that the host gives.

        Raises:
            InvalidArguments: naming each field that does not fit.
        """
        bound = {name: given[name] for name in INJECTED if name in self._parameters}
        if self._model is None:
            return {**arguments, **bound}
        try:
            model = self._model.model_validate(self._parse_texts(arguments))
        except ValidationError as error:
            lines = (
                f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}"
                for one in error.errors(include_url=False)
            )
            raise InvalidArguments("\n".join(lines)) from error
        # Attributes, and not a dump: models and enumerations arrive as instances.
        return {name: getattr(model, name) for name in type(model).model_fields} | bound

    def _parse_texts(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Read lists and objects that a model has sent as JSON in a text."""
        properties = self.schema.get("properties", {})
        parsed = dict(arguments)
        for name, value in arguments.items():
            kind = properties.get(name, {}).get("type")
            is_nested = kind in ("array", "object") or "$ref" in properties.get(name, {})
            if isinstance(value, str) and is_nested and value.lstrip()[:1] in ("{", "["):
                try:
                    parsed[name] = json.loads(value)
                except ValueError:
                    continue
        return parsed


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description in a docstring, and those of parameters by name."""
    import docstring_parser  # takes as long as all of pydantic's own

    parsed = docstring_parser.parse(inspect.getdoc(function) or "")
    parts = (parsed.short_description, parsed.long_description)
    texts = {param.arg_name: param.description or "" for param in parsed.params}
    return "\n\n".join(part for part in parts if part), texts


def _has_text(hint: Any) -> bool:
    """Return whether an annotation has a description."""
    return any(
        isinstance(extra, FieldInfo) and extra.description
        for extra in getattr(hint, "__metadata__", ())
    )


def make_context_values(
    workspace: Path, chat_id: str, toolset_id: str, context: Any
) -> dict[str, Any]:
    """Return the values of the parameters that the host gives."""
    return dict(zip(INJECTED, (workspace, chat_id, toolset_id, context), strict=True))
