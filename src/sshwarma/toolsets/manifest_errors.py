"""Sentences about what is wrong in a `toolset.yaml`, in place of pydantic's."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from sshwarma.common.near_names import find_near_names, suggest_names
from sshwarma.common.shorten import shorten_name
from sshwarma.common.validation_text import describe_validation_error
from sshwarma.settings.errors import describe_value_error
from sshwarma.toolsets.archive import MANIFEST_PATH
from sshwarma.world.errors import Conflict, Invalid

_SECRET_FIELDS: Final = frozenset({"env", "headers", "args", "url", "command"})
"""Fields with values that may be keys: a refusal does not repeat them."""

_MAPPING_ERRORS: Final = ("model_type", "model_attributes_type", "dict_type")
_LENGTH_ERRORS: Final = ("string_too_long", "too_long")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

MAX_SHOWN_PROBLEMS: Final = 3
"""Problems of one manifest that a refusal names."""


class InvalidManifest(Invalid):
    """A `toolset.yaml` that is not valid; the text names the field."""


def format_place(path: Sequence[str | int]) -> str:
    """Return the place of a value as people write it: `tools[2].entrypoint`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part != "[key]":  # pydantic's mark of the key itself
            name = part if _PLAIN_KEY.fullmatch(part) else repr(shorten_name(part))
            text += f".{shorten_name(name)}" if text else shorten_name(name)
    return text


def problems_error(
    problems: Iterable[str], find_line: Callable[[str], int | None] | None
) -> InvalidManifest:
    """Return the refusal of a manifest, with its first problems.

    The others are not described: there may be thousands, each compared with all known names.

    Args:
        problems: each with the place that it is about, as `format_place` writes it, at its start.
        find_line: finds the line of a problem; None where there is no file.
    """
    shown = list(islice(problems, MAX_SHOWN_PROBLEMS + 1))
    if find_line is not None:
        shown = [add_line(problem, find_line(problem)) for problem in shown]
    text = "; ".join(shown[:MAX_SHOWN_PROBLEMS])
    more = "; and more" if len(shown) > MAX_SHOWN_PROBLEMS else ""
    return InvalidManifest(f"{MANIFEST_PATH}: {text}{more}.")


def add_line(problem: str, number: int | None) -> str:
    """Return a problem with the number of its line, if that is known."""
    return problem if number is None else f"{problem} (line {number})"


@contextlib.contextmanager
def naming_place(describe: Callable[[str], str], place: str) -> Iterator[None]:
    """Let refusals of the world say which field of the manifest they are about.

    Args:
        describe: adds its file and line to a problem of a field.
        place: the field, as `format_place` writes it.

    Raises:
        Invalid, Conflict: in place of one that was raised.
    """
    try:
        yield
    except (Invalid, Conflict) as error:
        problem = describe(f"{place}: {error.message.removesuffix('.')}")
        kind = Invalid if isinstance(error, Invalid) else Conflict
        raise kind(f"{problem}.", hint=error.hints) from error


def describe_problems(
    error: ValidationError, schema: type[BaseModel], above: Sequence[str | int] = ()
) -> Iterator[str]:
    """Describe each invalid value: `tools[2].entrypoint: must be …`.

    Args:
        error: error of the validation.
        schema: model that was validated; close names are suggested from its fields.
        above: place of what was validated.
    """
    for detail in error.errors(include_url=False):
        yield _describe(detail, schema, [*above, *detail["loc"]])


def _describe(detail: Mapping[str, Any], schema: type[BaseModel], path: Sequence[str | int]) -> str:
    place = format_place(path)
    if detail["type"] == "missing":
        return f"{place} is missing"
    if detail["type"] == "extra_forbidden":
        known = _fields_at(schema, detail["loc"][:-1])
        near = suggest_names(find_near_names(str(path[-1]), known))
        return f"{place}: unknown field{f' ({near[0].lower()}{near[1:]})' if near else ''}"
    show_value = _SECRET_FIELDS.isdisjoint(path)
    if detail["type"] in _MAPPING_ERRORS:
        text = describe_validation_error(detail, show_value=False)
    elif detail["type"] in _LENGTH_ERRORS:  # only the length is shown
        text = describe_validation_error(detail)
    else:
        text = describe_value_error(detail, show_value=show_value)
    return f"{place}: {text}" if place else text


def _fields_at(schema: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the fields of the model at a place, or none if there is no model."""
    found: type[BaseModel] = schema
    for part in path:
        if isinstance(part, int):
            continue
        field = found.model_fields.get(part)
        inner = None if field is None else _model_in(field.annotation)
        if inner is None:
            return []
        found = inner
    return list(found.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
