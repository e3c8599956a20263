"""Checks a call's arguments against the JSON Schema of its tool.

Arguments are parsed from words, coerced, and checked, in a bounded number of steps
(`tools/schema_check.py`). A schema is untrusted, so it is first simplified
(`tools/bounded_schema.py`); patterns are matched in bounds (`tools/patterns.py`).
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from sshwarma.common.json_guard import JsonTooLarge, load_json
from sshwarma.common.limits import (
    MAX_ARGUMENT_CHECKS,
    MAX_ARGUMENTS_BYTES,
    MAX_NAMED_PROBLEMS,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.validation_text import describe_json_error
from sshwarma.tools.argument_names import use_own_names
from sshwarma.tools.bounded_schema import TYPE_DESCRIPTIONS, bound_schema
from sshwarma.tools.patterns import PatternMatcher
from sshwarma.tools.schema_check import SchemaChecker, SchemaProblem, TooManyChecks
from sshwarma.world.errors import Invalid, too_long_error
from sshwarma.world.reader import PERSON, Reader
from sshwarma.world.things import Thing

MAX_LISTED_ARGUMENTS: Final = 20
"""Arguments that the refusal of a call lists."""

ANY_OBJECT_SCHEMA: Final[dict[str, Any]] = {"type": "object"}

_JSON_VALUE: Final = re.compile(r"(?:^|\s)[^\s=\"']+=(?=[\[{])")
"""The name of an argument before a list or an object."""

_DECODER: Final = json.JSONDecoder()

_OBJECT_HINT: Final = (
    'A JSON object stands alone, in single quotes or in none: {"prompt": "jazz drums", "bars": 4}'
)

_WORDS_PATTERN: Final = re.compile(r"\^\(((?:[\w-]+|@\.\+)(?:\|(?:[\w-]+|@\.\+))*)\)\$")
"""Patterns of words and of `@agent`: `^(room|me|@.+)$`."""

_BOUND_WORDS: Final = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}


def get_input_schema(tool: Thing) -> dict[str, Any]:
    """Return the declared input schema of a tool."""
    schema = tool.metadata.get("input_schema")
    return schema if isinstance(schema, dict) else ANY_OBJECT_SCHEMA


def check_arguments(
    tool: Thing, arguments: Mapping[str, Any], reader: Reader = PERSON
) -> dict[str, Any]:
    """Return the arguments, coerced, if they fit the tool's schema.

    Text that holds JSON of the declared type is parsed: models sometimes write numbers as text.
    A refusal names the tool and its arguments as the reader's list of tools has them.

    Raises:
        Invalid: naming the wrong arguments and the expected values, or the limit of the arguments'
            size or of the steps to check them.
    """
    try:
        size = len(json.dumps(arguments, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"The arguments cannot be written as JSON: {error}.") from error
    if size > MAX_ARGUMENTS_BYTES:
        raise too_long_error("arguments", size, MAX_ARGUMENTS_BYTES, "bytes of JSON")
    schema, arguments = bound_schema(get_input_schema(tool)), use_own_names(tool, arguments)
    values = {name: _coerce_value(schema, name, value) for name, value in arguments.items()}
    checker = SchemaChecker(PatternMatcher().matches, MAX_ARGUMENT_CHECKS, MAX_NAMED_PROBLEMS + 1)
    try:
        schema_problems = checker.find_problems(values, schema)
    except TooManyChecks:
        problem = "the arguments need too many checks against its schema"
        raise Invalid(
            f"{_name_refused_tool(tool, reader)}{with_limit(problem, MAX_ARGUMENT_CHECKS)}.",
            hint="Pass fewer values.",
        ) from None
    values_by_id = {id(problem.value): problem.value for problem in schema_problems}
    texts = {key: _shorten_json(value) for key, value in values_by_id.items()}
    problems = [
        text
        for problem in schema_problems
        for text in _describe_problem(problem, texts[id(problem.value)], schema)
    ]
    if problems:
        names = ", ".join(_argument_names(schema, tool.label, reader)) or "none"
        suffix = "; and more" if len(problems) > MAX_NAMED_PROBLEMS else ""
        raise Invalid(
            f"{_name_refused_tool(tool, reader)}"
            f"{'; '.join(problems[:MAX_NAMED_PROBLEMS])}{suffix}.",
            hint=f"Arguments: {names}.",
        )
    return values


def _name_refused_tool(tool: Thing, reader: Reader) -> str:
    """Return how a refusal begins: without the name where it stands at the call."""
    return "" if reader.kind == "model" else f"{reader.name_tool(tool.label)}: "


def parse_arguments(tool: Thing, text: str) -> dict[str, Any]:
    """Parse words after a tool's name: `bars=4 prompt="two words"`, or a JSON object.

    A value is text where the tool takes text, else its JSON value, if it is JSON. An object may
    have quotes around it, which the shell of somebody has left there.

    Raises:
        Invalid: if it cannot be parsed.
    """
    given = _unquote_object(text)
    if given.lstrip().startswith("{"):
        try:
            data = load_json(given)
        except JsonTooLarge as error:
            raise Invalid(f"The value of the arguments {error}.") from error
        except (ValueError, RecursionError) as error:
            reason = describe_json_error(error)
            hint = "" if given is text else _OBJECT_HINT
            raise Invalid(f"The arguments are not valid JSON: {reason}.", hint=hint) from error
        return dict(data)
    schema = bound_schema(get_input_schema(tool))
    arguments: dict[str, Any] = {}
    for word in _split_values(text):
        name, equals, value = word.partition("=")
        if not equals or not name:
            hint = 'For example: prompt="jazz drums" bars=4'
            raise Invalid(
                f"{word[:40]} is not NAME=VALUE.",
                hint=_OBJECT_HINT if word.lstrip().startswith("{") else hint,
            )
        arguments[name] = (
            value if "string" in _allowed_types(schema, name) else _parse_json_or_text(value)
        )
    return arguments


def _unquote_object(text: str) -> str:
    """Return the object in a text of one quoted word, or else the text."""
    if text.lstrip().startswith(("'", '"')):
        with contextlib.suppress(ValueError):
            words = shlex.split(text)
            if len(words) == 1 and words[0].lstrip().startswith("{"):
                return words[0]
    return text


def _split_values(text: str) -> list[str]:
    """Split words; a value that begins as a list or object is JSON with its quotes.

    Raises:
        Invalid: if a quote is not closed.
    """
    words: list[str] = []
    start = 0
    try:
        for found in _JSON_VALUE.finditer(text):
            if found.start() < start:
                continue  # within another value
            _, end = _DECODER.raw_decode(text, found.end())
            if text[end : end + 1].strip():
                return split_words(text)
            words += [*shlex.split(text[start : found.start()]), text[found.start() : end].strip()]
            start = end
        return [*words, *shlex.split(text[start:])]
    except (ValueError, RecursionError):  # no JSON, or within the quotes of a text
        return split_words(text)


def split_words(text: str) -> list[str]:
    """Split words as a shell does: quotes keep spaces.

    Raises:
        Invalid: if a quote is not closed.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Invalid(f"Cannot split the arguments: {error}.") from error


def _coerce_value(schema: dict[str, Any], name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    types = _allowed_types(schema, name)
    return value if not types or "string" in types else _parse_json_or_text(value)


def _parse_json_or_text(text: str) -> Any:
    try:
        return load_json(text)
    except (ValueError, RecursionError):
        return text


def _allowed_types(schema: dict[str, Any], name: str) -> frozenset[str]:
    """Return the types an argument may have; empty if the schema does not say."""
    subschema = _get_subschema(schema.get("properties"), name)
    options = [_get_subschema(option) for option in subschema.get("anyOf", [subschema])]
    types: set[str] = set()
    for option in options:
        kinds = option.get("type", "string" if _has_string_option(option.get("enum", ())) else ())
        types |= {kinds} if isinstance(kinds, str) else set(kinds)
    return frozenset(types)


def _has_string_option(options: Any) -> bool:
    return any(isinstance(option, str) for option in options)


def _get_subschema(of: Any, name: str | None = None) -> dict[str, Any]:
    inner = of if name is None else of.get(name) if isinstance(of, dict) else None
    return inner if isinstance(inner, dict) else {}


def _argument_names(schema: dict[str, Any], label: str, reader: Reader) -> list[str]:
    required = schema.get("required", ())
    names = [name for name in schema.get("properties", {}) if reader.knows_argument(label, name)]
    names = names[:MAX_LISTED_ARGUMENTS]
    return [name if name in required else f"{name}?" for name in names]


def _describe_problem(problem: SchemaProblem, given: str, whole: dict[str, Any]) -> Iterator[str]:
    """Return the problem, beginning with the name of the argument.

    Args:
        problem: what does not fit.
        given: shows the value.
        whole: the schema of all arguments.
    """
    place = ".".join(map(str, problem.path)) or "the arguments"
    limit = problem.limit
    prefix = f"{place}." if problem.path else ""
    match problem.keyword:
        case "required":
            yield f"{prefix}{limit}: required"
        case "additionalProperties":
            properties = problem.schema.get("properties", {})
            for name in islice(
                (name for name in problem.value if name not in properties), MAX_NAMED_PROBLEMS + 1
            ):
                yield f"{prefix}{name[:40]}: unknown argument"
        case "type":
            yield f"{place}: must be {_describe_types(limit)} (got {given})"
        case "enum":
            options = ", ".join(_shorten_json(option, is_ascii=False) for option in limit[:20])
            yield f"{place}: choose one of: {options} (got {given})"
        case "const":
            yield f"{place}: must be {_shorten_json(limit)} (got {given})"
        case "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum":
            yield f"{place}: must be {_BOUND_WORDS[problem.keyword]} {limit} (got {given})"
        case "pattern":
            yield f"{place}: {_describe_pattern(limit)} (got {given})"
        case "anyOf":
            kinds = [
                kind for option in limit for kind in _as_list(_get_subschema(option).get("type"))
            ]
            if problem.path[:1] and problem.path[0] not in whole.get("required", ()):
                kinds = [kind for kind in kinds if kind != "null"] or kinds  # it may be left out
            requirement = (
                f"must be {_describe_types(kinds)}" if kinds else "matches no allowed type"
            )
            yield f"{place}: {requirement} (got {given})"
        case kind:
            yield f"{place}: violates {kind} {_shorten_json(limit)} (got {given})"


def _describe_pattern(pattern: str) -> str:
    """Return what a value must be; a pattern that lists words is read as their list."""
    listed = _WORDS_PATTERN.fullmatch(pattern)
    if listed is None:
        return f"must match {pattern}"
    return f"choose one of: {', '.join(listed[1].replace('@.+', '@agent').split('|'))}"


def _describe_types(kinds: Any) -> str:
    names = list(dict.fromkeys(TYPE_DESCRIPTIONS.get(kind, str(kind)) for kind in _as_list(kinds)))
    return " or ".join(names)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _shorten_json(value: Any, *, is_ascii: bool = True) -> str:
    text = ""
    for chunk in json.JSONEncoder(ensure_ascii=is_ascii).iterencode(
        value[:40] if isinstance(value, str) else value
    ):
        text += chunk
        if len(text) > 40:  # a value may be large, and only its start is shown
            return f"{text[:39]}…"
    return text
