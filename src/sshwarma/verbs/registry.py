"""The registry: what `@verb` declares, and everything that is read off the declaration."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from sshwarma.verbs.arguments import Arg
from sshwarma.world.access import Right, TokenScope, required_scope
from sshwarma.world.bootstrap import BuiltinToolSpec

Run = Callable[..., Awaitable[Any]]
F = TypeVar("F", bound=Run)

GROUPS: Final = (
    "Looking", "Moving", "Talking", "Models", "Remembering", "Inventory", "Tools", "Building",
    "Access", "Yourself", "Upkeep",
)  # fmt: skip
"""In the order /help shows them."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a verb, as typed on a line and as described to a program."""

    name: str
    arg: Arg
    help: str
    required: bool
    flag: bool
    boolean: bool
    choices: tuple[str, ...] = ()
    many: bool = False

    @property
    def usage(self) -> str:
        word = "|".join(self.choices) or self.name.upper()
        if self.flag:
            shown = f"--{self.option}" if self.boolean else f"--{self.option} {word}"
            return f"[{shown}]{'…' if self.many else ''}"
        shown = f"{word}…" if self.arg.rest and self.arg.what in ("text", "word") else word
        shown = f"{self.arg.particle} {shown}" if self.arg.particle else shown
        return shown if self.required else f"[{shown}]"

    @property
    def option(self) -> str:
        return self.name.rstrip("_").replace("_", "-")


@dataclass(frozen=True)
class Verb:
    """One thing anyone can do. `tool` is the name models and MCP know it by, if they may; after one
    of the words `awaits` its text is taken from a pipe, however long that takes. `scope` is how
    far a token must go to do it."""

    name: str
    run: Run
    group: str
    needs: Right | None
    aliases: tuple[str, ...]
    examples: tuple[str, ...]
    tool: str | None
    default: bool
    namespace: str
    moves: bool
    scope: TokenScope
    awaits: tuple[str, ...] = ()
    aside: bool = False

    @cached_property
    def summary(self) -> str:
        """The first line of its docstring."""
        return self._doc.split("\n", 1)[0]

    @cached_property
    def detail(self) -> str:
        """The rest of its docstring, without what belongs to the parameters."""
        lines = self._doc.split("\n")[1:]
        return "\n".join(line for line in lines if not _PARAMETER_LINE.match(line)).strip()

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        hints = get_type_hints(self.run, include_extras=True)
        signature = inspect.signature(self.run)
        found = list(signature.parameters.values())[1:]  # the first is the caller
        return tuple(self._parameter(parameter, hints[parameter.name]) for parameter in found)

    @cached_property
    def positional(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if not parameter.flag)

    @cached_property
    def flags(self) -> dict[str, Parameter]:
        return {parameter.option: parameter for parameter in self.parameters if parameter.flag}

    @property
    def usage(self) -> str:
        """How it is typed. Free text comes last, because everything after it belongs to it."""
        free = [p for p in self.positional if p.arg.rest and p.arg.what == "text"]
        before = [p for p in self.positional if p not in free]
        return " ".join(
            [f"/{self.name}", *(p.usage for p in (*before, *self.flags.values(), *free))]
        )

    @cached_property
    def model(self) -> type[BaseModel]:
        """The arguments as a pydantic model: the one validation, whatever the door."""
        hints = get_type_hints(self.run, include_extras=True)
        fields: dict[str, Any] = {}
        for parameter in list(inspect.signature(self.run).parameters.values())[1:]:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints[parameter.name], default)
        return create_model(
            f"{self.name}_arguments", __config__=ConfigDict(extra="forbid"), **fields
        )

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, each with its description."""
        schema = self.model.model_json_schema()
        schema.pop("title", None)
        schema.setdefault("properties", {})
        for parameter in self.parameters:
            described = schema["properties"][parameter.name]
            described.pop("title", None)
            described["description"] = parameter.help
        return schema

    @cached_property
    def result_type(self) -> Any:
        return get_type_hints(self.run)["return"]

    @cached_property
    def result_adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.result_type)

    @property
    def tool_spec(self) -> BuiltinToolSpec | None:
        if self.tool is None:
            return None
        return BuiltinToolSpec(
            self.namespace, self.tool, self.summary, self.input_schema, self.default
        )

    @cached_property
    def _doc(self) -> str:
        return inspect.cleandoc(self.run.__doc__ or "")

    def _parameter(self, parameter: inspect.Parameter, hint: Any) -> Parameter:
        arg, inner, choices = _describe(hint)
        found = re.search(rf"^{parameter.name}: (.+(?:\n    .+)*)$", self._doc, re.MULTILINE)
        return Parameter(
            name=parameter.name,
            arg=arg,
            help=textwrap.dedent(found[1]).replace("\n", " ").replace("    ", "") if found else "",
            required=parameter.default is parameter.empty,
            flag=parameter.kind is parameter.KEYWORD_ONLY,
            boolean=inner is bool,
            choices=choices,
            many=get_origin(inner) is tuple,
        )


_PARAMETER_LINE: Final = re.compile(r"[a-z_]+: |    \S")

_verbs: dict[str, Verb] = {}
_names: dict[str, Verb] = {}


def verb(
    name: str,
    *,
    group: str,
    needs: Right | None = None,
    aliases: tuple[str, ...] = (),
    examples: tuple[str, ...],
    tool: str | bool = True,
    default: bool = False,
    namespace: str = "sshwarma",
    moves: bool = False,
    awaits: tuple[str, ...] = (),
    scope: TokenScope | None = None,
    aside: bool = False,
) -> Callable[[F], F]:
    """Declare a verb.

    The function takes the caller, then the arguments: positional ones in the order they are
    typed, keyword-only ones as `--flags`. Its docstring is the help: a summary line, then text,
    then a line `argument: what it is` for each. `tool` is False for what only people do, or the
    name models know it by where that differs; `default` tools are equipped in new rooms; `moves`
    marks what takes a model out of its room; `awaits` are first words after which a text is needed
    that is otherwise optional; `aside` marks what a terminal carries out at once, beside the line
    that it works on. `scope` is needed where the right does not tell that something is changed:
    what needs no more than to enter counts as looking.
    """
    if group not in GROUPS:
        raise ValueError(f"{group!r} is not a group of verbs")

    def declare(run: F) -> F:
        tool_name = (name if tool is True else tool) or None
        made = Verb(
            name,
            run,
            group,
            needs,
            aliases,
            examples,
            tool_name,
            default,
            namespace,
            moves,
            scope or required_scope(needs),
            awaits,
            aside,
        )
        for known_as in (name, *aliases):
            if known_as in _names:
                raise ValueError(f"two verbs are called {known_as}")
            _names[known_as] = made
        _verbs[name] = made
        return run

    return declare


def every_verb() -> Iterator[Verb]:
    """All verbs, by group and name."""
    return iter(sorted(_verbs.values(), key=lambda made: (GROUPS.index(made.group), made.name)))


def find_verb(name: str) -> Verb | None:
    """The verb of that name or alias, with or without its slash, in any case."""
    return _names.get(name.removeprefix("/").lower())


def verb_names() -> list[str]:
    """Every name and alias."""
    return sorted(_names)


def tool_specs() -> list[BuiltinToolSpec]:
    """The tools the verbs become."""
    return [spec for made in every_verb() if (spec := made.tool_spec) is not None]


def _describe(hint: Any) -> tuple[Arg, Any, tuple[str, ...]]:
    """The Arg in an annotation, its plain type, and its choices if it is a Literal."""
    arg = Arg("word")
    options = [part for part in get_args(hint) if part is not type(None)]
    if get_origin(hint) is not Annotated and type(None) in get_args(hint):
        return _describe(options[0])
    if get_origin(hint) is Annotated:
        inner, *extras = get_args(hint)
        arg = next((extra for extra in extras if isinstance(extra, Arg)), arg)
        _, plain, choices = _describe(inner)
        return arg, plain, choices
    if get_origin(hint) is Literal:
        return arg, str, tuple(get_args(hint))
    return (Arg("number") if hint in (int, float) else arg), hint, ()
