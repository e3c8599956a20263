"""Checks a value against a simplified JSON Schema, with a bound on the work.

The cost of a check is the number of values times the number of keywords they are checked against.
Both come from strangers, so a check that would take too long is given up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Json = Any


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """A keyword of a schema that a value violates; `path` is the place of the value.

    For `required`, `limit` is the missing name.
    """

    keyword: str
    limit: Json
    value: Json
    path: tuple[str | int, ...]
    schema: dict[str, Any]


class TooManyChecks(Exception):
    """A check that needs more steps than it may take."""


class SchemaChecker:
    """One check of a value.

    Args:
        matches_pattern: whether a text matches a pattern, or is not to be matched.
        max_checks: keywords checked and values compared, all together.
        max_problems: problems found before the check ends.
    """

    def __init__(
        self, matches_pattern: Callable[[str, str], bool], max_checks: int, max_problems: int
    ) -> None:
        self._matches_pattern = matches_pattern
        self._checks_left = max_checks
        self._max_problems = max_problems
        self._path: list[str | int] = []
        self._problems: list[SchemaProblem] | None = []
        self._keywords: dict[str, Callable[[Any, Any, dict[str, Any]], bool]] = {
            "type": self._check_type,
            "enum": self._check_enum,
            "const": self._check_const,
            "required": self._check_required,
            "pattern": self._check_pattern,
            "properties": self._check_properties,
            "additionalProperties": self._check_additional_properties,
            "items": self._check_items,
            "anyOf": self._check_any_of,
            "allOf": self._check_all_of,
        }

    def find_problems(self, value: Json, schema: dict[str, Any] | bool) -> list[SchemaProblem]:
        """Return the problems of a value, the first `max_problems` of them.

        Raises:
            TooManyChecks: if that needs more than `max_checks`.
        """
        self._problems = []
        self._check(value, schema)
        return self._problems

    def _check(self, value: Json, schema: dict[str, Any] | bool) -> bool:
        """Return whether a value fits; record its problems unless only that is asked."""
        if isinstance(schema, bool):
            self._spend(1)
            return schema or self._report("false", None, value, {})
        self._spend(len(schema) + 1)
        is_valid = True
        for keyword, limit in schema.items():
            check = self._keywords.get(keyword)
            if check is not None:
                is_valid = check(value, limit, schema) and is_valid
            elif keyword in _IS_WITHIN and not _IS_WITHIN[keyword](value, limit):
                is_valid = self._report(keyword, limit, value, schema)
            if not is_valid and self._is_done():
                return False
        return is_valid

    def _check_inside(self, place: str | int, value: Json, schema: dict[str, Any] | bool) -> bool:
        self._path.append(place)
        is_valid = self._check(value, schema)
        self._path.pop()
        return is_valid

    def _spend(self, checks: int) -> None:
        self._checks_left -= checks
        if self._checks_left < 0:
            raise TooManyChecks

    def _report(self, keyword: str, limit: Json, value: Json, schema: dict[str, Any]) -> bool:
        """Record a problem; return False, for the check that found it."""
        if self._problems is not None and not self._is_done():
            path = tuple(self._path)
            self._problems.append(SchemaProblem(keyword, limit, value, path, schema))
        return False

    def _is_done(self) -> bool:
        """Whether a value that does not fit needs no further check."""
        return self._problems is None or len(self._problems) >= self._max_problems

    def _check_type(self, value: Json, limit: Json, schema: dict[str, Any]) -> bool:
        kinds = limit if isinstance(limit, list) else [limit]
        return any(_IS_TYPE[kind](value) for kind in kinds) or self._report(
            "type", limit, value, schema
        )

    def _check_enum(self, value: Json, limit: Json, schema: dict[str, Any]) -> bool:
        return any(self._are_equal(value, option) for option in limit) or self._report(
            "enum", limit, value, schema
        )

    def _check_const(self, value: Json, limit: Json, schema: dict[str, Any]) -> bool:
        return self._are_equal(value, limit) or self._report("const", limit, value, schema)

    def _check_required(self, value: Json, limit: Json, schema: dict[str, Any]) -> bool:
        if not isinstance(value, dict):
            return True
        self._spend(len(limit))
        missing_names = [name for name in limit if name not in value]
        for name in missing_names:
            self._report("required", name, value, schema)
        return not missing_names

    def _check_pattern(self, value: Json, limit: Json, schema: dict[str, Any]) -> bool:
        if not isinstance(value, str) or self._matches_pattern(limit, value):
            return True
        return self._report("pattern", limit, value, schema)

    def _check_properties(self, value: Json, limit: Json, schema: dict[str, Any]) -> bool:
        if not isinstance(value, dict):
            return True
        self._spend(min(len(value), len(limit)))
        names = limit if len(limit) <= len(value) else value
        is_valid = True
        for name in names:
            if name in value and name in limit:
                is_valid = self._check_inside(name, value[name], limit[name]) and is_valid
                if not is_valid and self._is_done():
                    break
        return is_valid

    def _check_additional_properties(
        self, value: Json, limit: Json, schema: dict[str, Any]
    ) -> bool:
        if not isinstance(value, dict):
            return True
        self._spend(len(value))
        properties = schema.get("properties", {})
        extra_names = [name for name in value if name not in properties]
        if limit is False:
            return not extra_names or self._report("additionalProperties", limit, value, schema)
        is_valid = True
        for name in extra_names:
            is_valid = self._check_inside(name, value[name], limit) and is_valid
            if not is_valid and self._is_done():
                break
        return is_valid

    def _check_items(self, value: Json, limit: Json, schema: dict[str, Any]) -> bool:
        if not isinstance(value, list):
            return True
        is_valid = True
        for index, item in enumerate(value):
            is_valid = self._check_inside(index, item, limit) and is_valid
            if not is_valid and self._is_done():
                break
        return is_valid

    def _check_any_of(self, value: Json, limit: Json, schema: dict[str, Any]) -> bool:
        problems, self._problems = self._problems, None  # those of a branch are nobody's
        is_valid = any(self._check(value, branch) for branch in limit)
        self._problems = problems
        if is_valid or self._problems is None:
            return is_valid
        alike = [branch for branch in limit if _has_type(value, branch)]
        if len(alike) == 1:  # such as the text of "text or null": what is wrong with the text
            return self._check(value, alike[0])
        return self._report("anyOf", limit, value, schema)

    def _check_all_of(self, value: Json, limit: Json, schema: dict[str, Any]) -> bool:
        is_valid = True
        for branch in limit:
            is_valid = self._check(value, branch) and is_valid
            if not is_valid and self._is_done():
                break
        return is_valid

    def _are_equal(self, one: Json, other: Json) -> bool:
        """Compare as JSON Schema does: 1 is 1.0, and neither is true."""
        self._spend(1)
        if isinstance(one, bool) or isinstance(other, bool):
            return one is other
        if isinstance(one, dict) and isinstance(other, dict):
            return len(one) == len(other) and all(
                name in other and self._are_equal(inner, other[name]) for name, inner in one.items()
            )
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(map(self._are_equal, one, other))
        return bool(one == other)


def _has_type(value: Json, schema: dict[str, Any] | bool) -> bool:
    """Return whether a schema names the type of a value."""
    kinds = schema.get("type", []) if isinstance(schema, dict) else []
    return any(_IS_TYPE[kind](value) for kind in (kinds if isinstance(kinds, list) else [kinds]))


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Json) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_IS_TYPE: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
_IS_WITHIN: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "minimum": lambda value, limit: not _is_number(value) or value >= limit,
    "maximum": lambda value, limit: not _is_number(value) or value <= limit,
    "exclusiveMinimum": lambda value, limit: not _is_number(value) or value > limit,
    "exclusiveMaximum": lambda value, limit: not _is_number(value) or value < limit,
    "minLength": lambda value, limit: not isinstance(value, str) or len(value) >= limit,
    "maxLength": lambda value, limit: not isinstance(value, str) or len(value) <= limit,
    "minItems": lambda value, limit: not isinstance(value, list) or len(value) >= limit,
    "maxItems": lambda value, limit: not isinstance(value, list) or len(value) <= limit,
    "minProperties": lambda value, limit: not isinstance(value, dict) or len(value) >= limit,
    "maxProperties": lambda value, limit: not isinstance(value, dict) or len(value) <= limit,
}
