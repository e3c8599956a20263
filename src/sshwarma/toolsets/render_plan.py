"""Render plans: the configuration of a renderer with its expressions resolved.

| expression | value |
| --- | --- |
| `$args`, `$args.NAME` | arguments of the call, with the defaults of those left out |
| `$return`, `$return.a.0.b` | what the tool returned; a number is an index of a list |
| `$chat_id`, `$workspace`, `$toolset` | the room, and both folders as the tool sees them |

A text that is an expression and nothing else becomes its value, of any type. Within a text an
expression becomes text: `http://localhost:$return.port`. There a name consists of letters
of any script, digits and `_`, and what follows a value without parts stays: `$args.name.txt`.
Alone, a name may have `-`.

Only the configuration is searched for expressions. Values are never searched: an argument that
begins with `$` is data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sshwarma.common.limits import MAX_RENDER_PLAN_CHARACTERS
from sshwarma.common.shorten import shorten_name
from sshwarma.toolsets.render_targets import check_target, name_value
from sshwarma.toolsets.renderers import RendererName
from sshwarma.workspaces.tree import Entry

_ALONE: Final = re.compile(
    r"\$(?P<root>[A-Za-z_][A-Za-z0-9_]*)(?P<path>(?:\.[\w\x80-\U0010ffff-]+)*)"
)
_WITHIN: Final = re.compile(
    r"\$(?P<root>[A-Za-z_][A-Za-z0-9_]*)(?P<path>(?:\.[\w\x80-\U0010ffff]+)*)"
)
_PLAIN_PATH: Final = re.compile(r"(?:\.[A-Za-z0-9_]+)+(?=[^\x00-\x7f])")
"""A path up to a letter beyond ASCII: scripts without blanks put words directly behind it."""

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")

ROOTS: Final = ("args", "return", "chat_id", "workspace", "toolset")
"""Names that an expression may begin with."""

UNKNOWN_ROOT: Final = f"is unknown: expressions begin with ${', $'.join(ROOTS)}"
"""The rest of a sentence about an expression that begins with another name."""

MAX_PROBLEMS: Final = 20
"""Problems of one plan that are reported."""

_DEFAULTS: Final[dict[RendererName, dict[str, Any]]] = {
    "code": {"language": "auto", "editable": False},
    "document": {"editable": False},
    "html": {"data": "$return"},
    "frame": {},
}
"""Keys that a configuration may leave out, with their values."""


@dataclass(frozen=True, slots=True)
class RenderContext:
    """Values of `$chat_id`, `$workspace` and `$toolset`; None is unresolved."""

    chat_id: str | None = None
    workspace: str | None = None
    toolset: str | None = None


def make_render_plan(
    renderer: RendererName,
    config: Mapping[str, Any],
    args: Mapping[str, Any],
    result: Any,
    context: RenderContext,
    files: Mapping[str, Entry] | None = None,
) -> dict[str, Any]:
    """Return `{renderer, config}`, and `problems` if there are any.

    In place of such an expression alone stands None; within a text it stays as it is. None stands
    for a file, an address or a port that no page could open, too. The plan shares values with the
    arguments and the result.

    Args:
        renderer: name of the renderer.
        config: its configuration, checked by `check_renderer_config`.
        args: arguments of the call, of values that JSON has.
        result: what the tool returned, a value that JSON has.
        context: values of the other expressions.
        files: of the room, by path; None if they are not known.
    """
    values: dict[str, Any] = {"args": args, "return": result}
    for name in ("chat_id", "workspace", "toolset"):
        value = getattr(context, name)
        if value is not None:
            values[name] = value
    resolver = _Resolver(values)
    resolved = {
        key: resolver.resolve(value, key)
        for key, value in {**_DEFAULTS[renderer], **config}.items()
    }
    plan: dict[str, Any] = {
        "renderer": renderer,
        "config": {key: resolver.check(key, value, files) for key, value in resolved.items()},
    }
    if resolver.problems:
        plan["problems"] = resolver.problems
    return plan


def fill_defaults(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, with the defaults of those left out.

    Args:
        schema: of the arguments; its `properties` have the defaults.
        arguments: those that were given.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    defaults = {
        name: parameter["default"]
        for name, parameter in known.items()
        if isinstance(parameter, dict) and "default" in parameter and name not in arguments
    }
    return {**arguments, **defaults}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression in a configuration.

    Attributes:
        place: of the text that it stands in, as a field.
        text: the expression.
        root: the name that it begins with.
        names: what the part behind that may be called; none if there is no such part. What follows
            a name may be letters of a text, too.
    """

    place: str
    text: str
    root: str
    names: tuple[str, ...]


def list_expressions(value: Any, place: str) -> Iterator[Expression]:
    """Yield the expressions in a value of a configuration, at any depth.

    `place` is that of the value.
    """
    match value:
        case dict():
            for key, inner in value.items():
                yield from list_expressions(inner, f"{place}.{key}")
        case list():
            for index, inner in enumerate(value):
                yield from list_expressions(inner, f"{place}[{index}]")
        case str():
            alone = _ALONE.fullmatch(value)
            for found in (alone,) if alone is not None else _WITHIN.finditer(value):
                path, plain = found["path"], _PLAIN_PATH.match(found["path"])
                paths = [path, _cut_path(path), plain[0] if plain is not None else ""]
                names = dict.fromkeys(one.split(".")[1] for one in paths if one)
                yield Expression(place, found[0], found["root"], tuple(names))


class _Unresolved(Exception):
    """An expression without a value; the text says why, after the expression."""


class _Resolver:
    """Resolves the expressions of one plan, up to a size of all values together."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._texts: dict[str, str] = {}
        self._characters_left = MAX_RENDER_PLAN_CHARACTERS
        self.problems: list[str] = []

    def resolve(self, value: Any, place: str) -> Any:
        """Return a value of the configuration with its expressions resolved."""
        match value:
            case dict():
                return {key: self.resolve(inner, f"{place}.{key}") for key, inner in value.items()}
            case list():
                return [
                    self.resolve(inner, f"{place}[{index}]") for index, inner in enumerate(value)
                ]
            case str():
                return self._resolve_text(value, place)
        return value

    def check(self, key: str, value: Any, files: Mapping[str, Entry] | None) -> Any:
        """Return what a key names; None, which is reported, if no page could open it."""
        if value is None:  # reported already, or the default
            return None
        target, problem = check_target(key, value, files)
        if problem:
            self._report(key, name_value(value), problem)
        return target

    def _resolve_text(self, text: str, place: str) -> Any:
        alone = _ALONE.fullmatch(text)
        if alone is not None and self._choose_path(alone) == alone["path"]:
            try:
                value, rest = self._find_value(alone["root"], alone["path"])
                if rest:
                    raise _Unresolved(f"has no part {shorten_name(rest[0])}")
                self._spend(text, value)
            except _Unresolved as problem:
                self._report(place, text, str(problem))
                return None
            return value
        return _WITHIN.sub(lambda found: self._resolve_within(found, place), text)

    def _resolve_within(self, found: re.Match[str], place: str) -> str:
        root, path = found["root"], self._choose_path(found)
        whole = f"${root}{path}"
        try:
            value, rest = self._find_value(root, path)
            if rest and isinstance(value, dict | list):
                raise _Unresolved(f"has no part {shorten_name(rest[0])}")
            expression = whole.removesuffix("".join(f".{part}" for part in rest))
            text = self._spend(expression, value)
        except _Unresolved as problem:
            self._report(place, whole, str(problem))
            return found[0]
        text = value if isinstance(value, str) else text
        return ".".join([text, *rest]) + found[0].removeprefix(whole)

    def _choose_path(self, found: re.Match[str]) -> str:
        """Return the path of an expression: what follows it may be letters, too."""
        root, path = found["root"], found["path"]
        if path.isascii() or root not in self._values:
            return path
        whole, plain = _cut_path(path), _PLAIN_PATH.match(path)
        if plain is None or not self._find_value(root, whole)[1]:
            return whole
        return whole if self._find_value(root, plain[0])[1] else plain[0]

    def _find_value(self, root: str, path: str) -> tuple[Any, list[str]]:
        """Return the value of the longest part of a path that there is, and the rest."""
        if root not in ROOTS:
            raise _Unresolved(UNKNOWN_ROOT)
        if root not in self._values:
            raise _Unresolved("has no value here")
        value = self._values[root]
        parts = path.split(".")[1:]
        for index, part in enumerate(parts):
            if isinstance(value, Mapping) and part in value:
                value = value[part]
            elif isinstance(value, list) and _INDEX.fullmatch(part) and int(part) < len(value):
                value = value[int(part)]
            else:
                return value, parts[index:]
        return value, []

    def _spend(self, expression: str, value: Any) -> str:
        """Count the characters that a value takes in the plan; return its JSON."""
        if expression not in self._texts:
            self._texts[expression] = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text = self._texts[expression]
        if len(text) > self._characters_left:
            raise _Unresolved(f"makes the plan longer than {MAX_RENDER_PLAN_CHARACTERS} characters")
        self._characters_left -= len(text)
        return text

    def _report(self, place: str, expression: str, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{shorten_name(place)}: {shorten_name(expression)} {problem}")


def _cut_path(path: str) -> str:
    """Return a path up to the first character that no name has, such as a dash."""
    for index, character in enumerate(path):
        if character not in ".-" and not f"a{character}".isidentifier():
            return path[:index].rstrip(".")
    return path
