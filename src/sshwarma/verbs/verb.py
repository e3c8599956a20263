"""A declared verb: its function, and the usage, schema and help derived from it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from sshwarma.verbs.arguments import Arg
from sshwarma.verbs.docstring import Docstring, parse_docstring
from sshwarma.verbs.rights import ArgumentRight, RightRule
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.bootstrap import BuiltinToolSpec

TERMINAL_RESULT_ATTRIBUTE: Final = "terminal_only"
"""A result type that has this attribute is given only to people at a terminal."""

TEXT_AFTER_EQUALS_NOTE: Final = "A text that begins with -- goes after = or after --."

Run = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a verb, as typed on a line and as described to a program.

    Attributes:
        flag: whether it is typed as `--NAME`.
        boolean: whether it is a flag without a value.
        many: whether the flag may be repeated.
    """

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
        """The parameter in a usage line: `NAME`, `[NAME]`, `[--long-flag FLAG]`."""
        name = self.option.rpartition("-")[2] if self.flag else self.option
        word = "|".join(self.choices) or self.arg.prefix + name.upper()
        word = "|".join((word, *self.arg.words))
        if self.flag:
            text = f"--{self.option}" if self.boolean else f"--{self.option} {word}"
            return f"[{text}]{'…' if self.many else ''}"
        text = f"{word}…" if self.arg.rest else word
        text = f"{self.arg.particle} {text}" if self.arg.particle else text
        return text if self.required else f"[{text}]"

    @property
    def option(self) -> str:
        """The name of the parameter on a line and in help; of a flag, without the dashes."""
        return self.arg.label or self.name.rstrip("_").replace("_", "-")

    def accepts_word(self, word: str) -> bool:
        """Return whether a typed word may be its value, by its first letters."""
        is_number_for_next = bool(self.choices) and word.isdecimal()
        return self.required or (word.startswith(self.arg.prefix) and not is_number_for_next)

    @property
    def is_text(self) -> bool:
        """Whether it takes the rest of the line unchanged; then a pipe can provide it."""
        return self.arg.rest and self.arg.kind == "text"

    @property
    def is_text_after_equals(self) -> bool:
        """Whether it is text that `=` may precede: flags stand before, never within it."""
        return self.is_text and self.arg.particle == "="

    def has_particle(self, word: str) -> bool:
        """Return whether a word only precedes its value."""
        return word == self.arg.particle or (word == "--" and self.is_text_after_equals)

    @property
    def typed_help(self) -> str:
        """The help on it, with how it is typed."""
        return f"{self.help} {TEXT_AFTER_EQUALS_NOTE}" if self.is_text_after_equals else self.help


@dataclass(frozen=True, slots=True)
class Spelling:
    """Another call that people type as a flag: `/mute bob --off` is `/unmute bob`.

    Attributes:
        verb: name of the verb that it calls.
        arguments: what it sets there, besides the arguments of the line.
    """

    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verb:
    """A command of people, models and programs, declared once for all doors.

    Attributes:
        group: the first of two words; "" for a verb of one word.
        needs: the right that the caller must have in the room; None needs no right.
        also_needs: the rights that it needs for some arguments, or for what is not the caller's.
        spellings: other calls that people may type as a flag of this verb, by that flag.
        excludes: for an argument, those that a call must not give besides it.
        needs_one_of: the optional arguments of which a program must give one; a person needs none.
        covered_by: name of the tool that does the same for models, or nothing.
        private_with: arguments whose calls as a tool are private: logs show nothing of them.
        rarely_used: parameters that lists of tools for models leave out, and calls may have.
        tool: its name for models and scripts; None if only people and HTTP clients use it.
        mcp_tool: its name for MCP clients.
        default: whether new rooms have it equipped as a tool.
        moves: whether it takes a model out of its room.
        scope: the scope that a token needs.
        change_scope: the scope that it needs to change something; wider than `scope` if the verb
            only shows without an argument.
        aside: whether a terminal runs it while another line is running.
        ssh_only: whether it only works over ssh with a key, not with a token and not for models.
        in_console: whether it also works in the console.
        works_at_terminals: whether a terminal in a browser has it, too, though it is `ssh_only`.
        takes_bytes: whether piped input is a content of any bytes, `Caller.upload`, and not text.
        adds_piped_text: whether piped text follows a text that is given.
        takes_exact_text: whether piped text keeps its last line end, and no text goes before it.
        text_source: the optional argument that names where else the text comes from; or "".
        needs_approval: whether a person must allow each call of it as a tool.
        leave_out: what models read of its calls once their turn is over; "" for the default.
        times_out_itself: whether it bounds its own time, instead of CALL_TIMEOUT_SECONDS.
    """

    name: str
    run: Run
    section: str
    group: str
    needs: Right | None
    also_needs: tuple[RightRule, ...]
    aliases: tuple[str, ...]
    spellings: Mapping[str, Spelling]
    excludes: Mapping[str, tuple[str, ...]]
    needs_one_of: tuple[str, ...]
    rarely_used: tuple[str, ...]
    covered_by: str
    private_with: tuple[str, ...]
    examples: tuple[str, ...]
    tool: str | None
    mcp_tool: str | None
    default: bool
    namespace: str
    moves: bool
    scope: TokenScope
    change_scope: TokenScope
    aside: bool
    ssh_only: bool
    in_console: bool
    works_at_terminals: bool = False
    takes_bytes: bool = False
    adds_piped_text: bool = True
    takes_exact_text: bool = False
    text_source: str = ""
    needs_approval: bool = False
    leave_out: str = ""
    times_out_itself: bool = False

    @property
    def action(self) -> str:
        """The name without the word of the group."""
        return self.name.partition(" ")[2] or self.name

    @property
    def path(self) -> str:
        """The name as one word, for addresses and identifiers: `mcp_add`."""
        return self.name.replace(" ", "_")

    @property
    def summary(self) -> str:
        """The first line of the docstring, without the full stop."""
        return self.docstring.summary

    @property
    def detail(self) -> str:
        """The rest of the docstring, up to the parameters, with what is for people alone."""
        return "\n\n".join(filter(None, (self.docstring.detail, self.docstring.for_people)))

    @property
    def rights(self) -> str:
        """The rights that it needs, as help states them, without a full stop; "" if none."""
        needs = f"the {self.needs} right" if self.needs else ""
        text = ", ".join(filter(None, (needs, *dict.fromkeys(r.text for r in self.also_needs))))
        return f"Needs {text}" if text else ""

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in the order of the signature, without the caller."""
        hints = get_type_hints(self.run, include_extras=True)
        return tuple(self._parameter(one, hints[one.name]) for one in self.signature)

    @cached_property
    def positional(self) -> tuple[Parameter, ...]:
        """The parameters that are typed without a name, in their order."""
        return tuple(parameter for parameter in self.parameters if not parameter.flag)

    @cached_property
    def flags(self) -> dict[str, Parameter]:
        """The parameters that are typed as `--NAME`, by that name."""
        return {parameter.option: parameter for parameter in self.parameters if parameter.flag}

    @cached_property
    def typed_flags(self) -> dict[str, Parameter]:
        """The parameters that can be typed as `--NAME`, and flags that spell other calls.

        A flag is there by its earlier names, too.
        """
        also_flags = {param.option: param for param in self.positional if param.arg.also_flag}
        spelled = {
            word: Parameter(word, Arg(), "", required=False, flag=True, boolean=True)
            for word in self.spellings
        }
        old = {name: param for param in self.flags.values() for name in param.arg.old_flags}
        return {**also_flags, **spelled, **old, **self.flags}

    @property
    def text(self) -> Parameter | None:
        """The parameter that a pipe can provide; None if the verb takes no free text."""
        return next((parameter for parameter in self.positional if parameter.is_text), None)

    @property
    def has_text_after_equals(self) -> bool:
        """Whether it is typed as `NAME = TEXT`."""
        return self.text is not None and self.text.is_text_after_equals

    @property
    def usage(self) -> str:
        """The usage line. Free text comes last, because it takes the rest of the line."""
        free = [parameter for parameter in self.positional if parameter.is_text]
        arguments = [parameter for parameter in self.positional if parameter not in free]
        parts = (param.usage for param in (*arguments, *self.flags.values(), *free))
        return " ".join([f"/{self.name}", *parts])

    @cached_property
    def model(self) -> type[BaseModel]:
        """The pydantic model of the arguments, which validates them at every door."""
        hints = get_type_hints(self.run, include_extras=True)
        fields: dict[str, Any] = {
            parameter.name: (
                hints[parameter.name],
                ... if parameter.default is parameter.empty else parameter.default,
            )
            for parameter in self.signature
        }
        config = ConfigDict(extra="forbid")
        return create_model(f"{self.path}_arguments", __config__=config, **fields)

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, each with its description."""
        schema = self.model.model_json_schema()
        schema.pop("title", None)
        schema.setdefault("properties", {})
        for parameter in self.parameters:
            described = schema["properties"][parameter.name]
            described.pop("title", None)
            described["description"] = parameter.help
        if self.needs_one_of:
            _require_one_of(schema, self.needs_one_of)
        if self.excludes:
            schema["dependentSchemas"] = {
                name: {"anyOf": [self._lacks((name,)), self._lacks(others)]}
                for name, others in self.excludes.items()
            }
        return schema

    def _lacks(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the JSON Schema of calls that leave these arguments at their defaults."""
        defaults = {parameter.name: parameter.default for parameter in self.signature}
        return {"properties": {name: {"const": defaults[name]} for name in names}}

    def is_given(self, arguments: Mapping[str, Any], name: str) -> bool:
        """Return whether an argument has another value than its default."""
        default = next(param.default for param in self.signature if param.name == name)
        return bool(arguments.get(name, default) != default)

    @cached_property
    def result_type(self) -> Any:
        """The declared return type of the function; a union if there are several."""
        return get_type_hints(self.run)["return"]

    @cached_property
    def result_adapter(self) -> TypeAdapter[Any]:
        """The type adapter of results for programs, which makes their JSON Schema."""
        kinds = get_args(self.result_type) or (self.result_type,)
        shown = tuple(kind for kind in kinds if not hasattr(kind, TERMINAL_RESULT_ATTRIBUTE))
        union: Any = Union[shown or kinds]  # noqa: UP007 - of a list
        return TypeAdapter(union)

    @cached_property
    def tool_spec(self) -> BuiltinToolSpec | None:
        """The specification of the verb as a tool; None if only people use it."""
        if self.tool is None:
            return None
        return BuiltinToolSpec(
            self.namespace,
            self.tool,
            self.summary,
            self.input_schema,
            self.default,
            model_description=self.program_description,
            model_arguments=self.docstring.model_arguments if self.docstring.for_models else None,
            rarely_used=self.rarely_used,
            covered_by=self.covered_by,
            private_with=self.private_with,
            needs=self._rights_of_use(),
            needs_approval=self.needs_approval,
            leave_out=self.leave_out,
        )

    def _rights_of_use(self) -> tuple[Right, ...]:
        """Return the rights of a call, and that of its argument if it has only one."""
        of_arguments = [right for right in self.also_needs if isinstance(right, ArgumentRight)]
        is_for_one = len(self.parameters) == 1
        needed = [self.needs, *(right.right for right in of_arguments if is_for_one)]
        return tuple(right for right in needed if right is not None)

    @cached_property
    def program_description(self) -> str:
        """Description of the verb in lists of tools for models, with nothing to type."""
        return self.docstring.for_models or self.program_detail

    @cached_property
    def program_detail(self) -> str:
        """Whole description of the verb for models and programs."""
        return " ".join(f"{self.summary}. {self.docstring.detail}".split())

    @cached_property
    def docstring(self) -> Docstring:
        """The parsed docstring of the function."""
        return parse_docstring(self.run.__doc__ or "")

    @property
    def signature(self) -> list[inspect.Parameter]:
        """The parameters of the function, without the caller."""
        return list(inspect.signature(self.run).parameters.values())[1:]

    def _parameter(self, parameter: inspect.Parameter, hint: Any) -> Parameter:
        arg, inner, choices = _describe(hint)
        return Parameter(
            name=parameter.name,
            arg=arg,
            help=self.docstring.arguments.get(parameter.name, ""),
            required=parameter.default is parameter.empty,
            flag=parameter.kind is parameter.KEYWORD_ONLY,
            boolean=inner is bool,
            choices=choices,
            many=get_origin(inner) is tuple,
        )


def _require_one_of(schema: dict[str, Any], names: Sequence[str]) -> None:
    """Make a JSON Schema require one of its optional properties, then not null.

    Providers of models refuse `anyOf` at the top of a schema; `minProperties` says the same if the
    names are all the optional properties.
    """
    required = schema.get("required", [])
    if {*required, *names} != schema["properties"].keys():
        raise ValueError("needs_one_of must name every optional argument")
    schema["minProperties"] = len(required) + 1
    for name in names:
        described = schema["properties"][name]
        (value_schema,) = (one for one in described.pop("anyOf") if one.get("type") != "null")
        described.pop("default")
        described |= value_schema


def _describe(hint: Any) -> tuple[Arg, Any, tuple[str, ...]]:
    """Return the Arg of an annotation, its plain type, and its allowed values."""
    options = [option for option in get_args(hint) if option is not type(None)]
    if get_origin(hint) is not Annotated and type(None) in get_args(hint):
        return _describe(options[0])
    if get_origin(hint) is Annotated:
        inner, *extras = get_args(hint)
        _, plain, choices = _describe(inner)
        arg = next((extra for extra in extras if isinstance(extra, Arg)), Arg())
        return arg, plain, arg.choices or choices
    if get_origin(hint) is Literal:
        return Arg(), str, tuple(get_args(hint))
    return Arg("number") if hint in (int, float) else Arg(), hint, ()


def quote_word(word: str) -> str:
    """Quote a word with blanks or a quote, an empty one, and one like a flag."""
    is_plain = word and not re.search(r"\s", word) and word[0] not in "\"'"
    if is_plain and not word.startswith("--") and word != "=":
        return word
    return "'" + re.sub(r"(['\\])", r"\\\1", word) + "'"
