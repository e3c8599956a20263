"""What is read off a verb's declaration.

Longer than 400 lines, because it lists the files of several verbs.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import ValidationError

import sshwarma
from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.grammar import parse_call, validate_arguments
from sshwarma.verbs.registry import (
    SECTIONS,
    Verb,
    VerbGroup,
    every_entry,
    every_verb,
    find_entry,
    find_verb,
    group,
    tool_specs,
    verb,
    verb_names,
)
from sshwarma.verbs.rights import ArgumentRight, DataRight, MemberRight
from sshwarma.world.access import Right
from sshwarma.world.errors import Invalid
from support.source import nodes
from support.views import has_view

EVERY = list(every_verb())
GROUPS = [entry for entry in every_entry() if isinstance(entry, VerbGroup)]

TYPES = {"string", "integer", "number", "boolean", "null", "array", "object"}


def check_schema(schema: dict[str, Any]) -> None:
    """A JSON Schema as far as ours go: known words, used as the specification says."""
    for key, value in schema.items():
        match key:
            case "type":
                assert value in TYPES
            case "enum":
                assert isinstance(value, list) and len(set(value)) == len(value) > 0
            case "anyOf":
                assert value
                for option in value:
                    check_schema(option)
            case "items":
                check_schema(value)
            case "minimum" | "maximum" | "maxItems" | "exclusiveMinimum":
                assert isinstance(value, int | float)
            case "default" | "description" | "const":
                pass
            case "pattern":
                assert re.compile(value)
            case "additionalProperties":
                assert isinstance(value, bool)
            case _:
                raise AssertionError(f"a word that was not expected: {key}")
    assert "type" in schema or "anyOf" in schema


def sample_arguments(declared: Verb, *names: str) -> dict[str, Any]:
    """The required arguments of a verb and those of `names`, each of the right type."""
    properties = declared.input_schema["properties"]
    wanted = [*declared.input_schema.get("required", ()), *names]
    return {name: sample_value(properties[name]) for name in wanted}


def sample_value(schema: dict[str, Any]) -> Any:
    options = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    samples = {"string": "x", "integer": 3, "number": 3.5, "boolean": True, "array": []}
    return options[0].get("enum", [samples[options[0]["type"]]])[0]


def fixed_words(schema: dict[str, Any]) -> set[str]:
    """The words that a schema names: values of an enum, alternatives of a pattern."""
    words: set[str] = set()
    for option in (schema, *schema.get("anyOf", ())):
        words |= {str(value) for value in (*option.get("enum", ()), option.get("const"))}
        words |= set(re.findall(r"[(|]([a-z]+)(?=[|)])", option.get("pattern", "")))
    return words - {"None"}


def accepts(declared: Verb, arguments: dict[str, Any]) -> bool:
    return bool(Draft202012Validator(declared.input_schema).is_valid(arguments))


@pytest.mark.parametrize("declared", EVERY, ids=lambda declared: declared.name)
class TestEveryVerb:
    def test_has_help(self, declared: Verb) -> None:
        assert declared.summary and not declared.summary.endswith(".")
        assert len(declared.summary) < 75
        for parameter in declared.parameters:
            assert parameter.help, f"{parameter.name} is not described"
            assert parameter.help.endswith("."), parameter.help
        assert declared.section in SECTIONS

    def test_first_argument_is_not_an_action(self, declared: Verb) -> None:
        """An action is a verb of its group, not the first argument of one verb.

        A value that is one of a few words has a type that says so by `Arg(choices=...)`; a bare
        Literal is what a switch on the first word looks like.
        """
        for first in declared.positional[:1]:
            assert first.choices == first.arg.choices, f"{first.name} is a Literal"
            assert len(first.choices or ()) != 1, f"{first.name} has one value: name an action"

    def test_words_of_the_first_argument_change_neither_right_nor_result(
        self, declared: Verb
    ) -> None:
        """Words that change the right or the result are actions, each a verb.

        Each action has its own right and its own result. Words may name a place, whose right its
        kind decides, or a value.
        """
        for first in declared.positional[:1]:
            words = fixed_words(declared.input_schema["properties"][first.name])
            for rule in declared.also_needs:
                if not isinstance(rule, (DataRight, MemberRight)) and rule.argument == first.name:
                    # `-` is a value like the numbers beside it.
                    own = words - {"room", "me", "home", "-"}
                    assert not own, f"{own} have a right of their own"
                    assert not getattr(rule, "values", ()), f"{rule} is a right of some words"
            if words and first.required:
                assert len(get_args(declared.result_type)) < 2, f"{words} choose the result"

    def test_examples_parse(self, declared: Verb) -> None:
        assert declared.examples
        for example in declared.examples:
            found, start = split_verb(example)
            assert found is declared
            assert parse_call(declared, example, start)[0] is declared

    def test_result_has_a_view(self, declared: Verb) -> None:
        options = get_args(declared.result_type) or (declared.result_type,)
        for option in options:
            assert has_view(option), option

    def test_result_has_a_json_schema(self, declared: Verb) -> None:
        schema = declared.result_adapter.json_schema(mode="serialization")
        Draft202012Validator.check_schema(schema)
        assert schema.keys() & {"properties", "$ref", "anyOf", "oneOf", "$defs"}

    def test_input_schema_matches_the_parameters(self, declared: Verb) -> None:
        schema = declared.input_schema
        known = {"type", "properties", "required", "additionalProperties"}
        known |= {"dependentSchemas"} if declared.excludes else set()
        known |= {"minProperties"} if declared.needs_one_of else set()
        assert set(schema) <= known, "providers of models refuse anyOf, not and the like here"
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert set(schema["properties"]) == {p.name for p in declared.parameters}
        assert set(schema.get("required", ())) == {
            p.name for p in declared.parameters if p.required
        }
        for parameter in declared.parameters:
            described = schema["properties"][parameter.name]
            assert described["description"] == parameter.help
            check_schema(described)

    def test_schema_refuses_what_the_verb_always_refuses(self, declared: Verb) -> None:
        for name, others in declared.excludes.items():
            for other in others:
                arguments = sample_arguments(declared, name, other)
                with pytest.raises(Invalid, match=r"^Give either \w+ or \w+, not both\.$"):
                    validate_arguments(declared, arguments)
                assert not accepts(declared, arguments)
                for one in (name, other):
                    arguments = sample_arguments(declared, one)
                    validate_arguments(declared, arguments)
                    assert accepts(declared, arguments)
        if declared.needs_one_of:
            assert not accepts(declared, sample_arguments(declared))
            for name in declared.needs_one_of:
                assert accepts(declared, sample_arguments(declared, name))

    def test_arguments_that_exclude_each_other_are_declared(self, declared: Verb) -> None:
        """A body must not refuse combinations of optional arguments by hand.

        A body that refuses two of them together, or the lack of both, does by hand what `excludes`
        and `needs_one_of` say, and its schema accepts what it refuses.
        """
        optional = {parameter.name for parameter in declared.parameters if not parameter.required}
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(declared.run)))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
                read = {name.id for name in ast.walk(node.test) if isinstance(name, ast.Name)}
                assert len(read & optional) < 2, ast.unparse(node.test)

    def test_spelled_calls_exist(self, declared: Verb) -> None:
        for spelling in declared.spellings.values():
            called = find_verb(spelling.verb)
            assert called is not None and called.needs is declared.needs
            assert set(spelling.arguments) <= {parameter.name for parameter in called.parameters}
            assert accepts(called, sample_arguments(called) | dict(spelling.arguments))

    def test_unknown_argument_is_refused(self, declared: Verb) -> None:
        with pytest.raises(ValidationError) as caught:
            declared.model.model_validate({"no-such-argument": 1})
        assert any(error["type"] == "extra_forbidden" for error in caught.value.errors())

    def test_required_arguments_come_before_optional_ones(self, declared: Verb) -> None:
        required = [parameter.required for parameter in declared.positional]
        assert required == sorted(required, reverse=True)

    def test_only_the_last_argument_takes_the_rest(self, declared: Verb) -> None:
        assert not any(parameter.arg.rest for parameter in declared.positional[:-1])


def test_names_and_aliases_are_unique() -> None:
    first_words = [word for entry in every_entry() for word in (entry.name, *entry.aliases)]
    assert sorted(first_words) == verb_names()
    assert len(set(first_words)) == len(first_words)
    assert all(re.fullmatch(r"[a-z?]+", word) for word in first_words)
    assert (
        len({known.name for known in EVERY}) == len({known.path for known in EVERY}) == len(EVERY)
    )
    assert all(re.fullmatch(r"[a-z]+( [a-z]+){0,2}", known.name) for known in EVERY)


@pytest.mark.parametrize("known", GROUPS, ids=lambda known: known.name)
class TestEveryGroup:
    def test_has_help(self, known: VerbGroup) -> None:
        assert known.summary and not known.summary.endswith(".")
        assert len(known.summary) < 75
        assert known.section in SECTIONS

    def test_actions_belong_to_the_group(self, known: VerbGroup) -> None:
        assert len(known.verbs) >= 1
        for declared in known.verbs:
            assert declared.group == known.name
            assert declared.name == f"{known.name} {declared.action}"
            assert declared.section == known.section
            assert not declared.aliases
            for name in (declared.name, declared.path, f"/{declared.name.upper()}"):
                assert find_verb(name) is declared

    def test_default_is_one_of_the_actions(self, known: VerbGroup) -> None:
        assert known.default == "" or known.default in known.actions
        assert find_verb(known.name) is known.find(known.default)
        for spelled in known.spellings:
            assert known.find(spelled) is None, f"{spelled} is an action"
            assert known.find_spelled(spelled) is not None
        if known.default_takes_words:
            default = known.default_for(None)
            assert default is not None and default.positional


def test_no_function_is_called_underscore() -> None:
    """A traceback, a profile and a search show a function by its name."""
    for file in sorted(Path(sshwarma.__file__).parent.rglob("*.py")):
        for node in nodes(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.name.strip("_"), f"{file.name}:{node.lineno}"
                views = [mark for mark in node.decorator_list if _is_view(mark)]
                named = node.name.startswith("draw_")
                assert named or not views, f"{file.name}:{node.lineno}: a view is draw_<result>"


def test_fixed_words_of_a_schema_are_found() -> None:
    known = {"anyOf": [{"pattern": "^(room|me|defaults|@.+)$"}, {"enum": ["on"]}, {"type": "null"}]}
    assert fixed_words(known) == {"room", "me", "defaults", "on"}


def test_right_of_an_unknown_argument_is_refused() -> None:
    async def odd(caller: Any) -> None:
        """Do nothing."""

    rule = ArgumentRight("gone", Right.BUILD, "to set it")
    with pytest.raises(ValueError, match="unheard-of has no parameter gone"):
        verb("unheard-of", section="Looking", examples=(), also_needs=(rule,))(odd)


def _is_view(mark: ast.expr) -> bool:
    return isinstance(mark, ast.Call) and ast.unparse(mark.func) in ("view", "view_for_reader")


def test_tools_have_unique_names() -> None:
    specs = tool_specs()
    assert len({spec.id for spec in specs}) == len(specs)
    assert len({(spec.namespace, spec.name) for spec in specs}) == len(specs)
    assert {spec.namespace for spec in specs} == {
        "sshwarma",
        "global",
        "workspace",
        "toolsets",
        "memory",
    }


def test_verbs_for_people_only_are_not_tools() -> None:
    tools = {spec.name for spec in tool_specs()}
    only_people = {"quit", "set", "alias", "kick", "ban", "mute", "room", "gc", "nav", "edit",
                   "portal", "unportal", "mcp", "model", "token", "tool"}  # fmt: skip
    assert not tools & only_people
    for name in only_people:
        entry = find_entry(name)
        actions = entry.verbs if isinstance(entry, VerbGroup) else ()
        assert all(known.tool is None for known in actions)
    for moves in ("join", "leave", "go", "create", "fork"):
        known = find_verb(moves)
        assert known is not None and known.moves and moves in tools


def test_duplicate_verb_name_is_refused() -> None:
    async def again(caller: Any) -> None:
        """Again."""

    with pytest.raises(ValueError, match="two verbs are called look"):
        verb("look", section="Looking", examples=())(again)
    with pytest.raises(ValueError, match="two verbs are called look"):
        group("look", section="Looking", doc="Look again.")
    with pytest.raises(ValueError, match="two verbs are called gc stale"):
        gc = find_entry("gc")
        assert isinstance(gc, VerbGroup)
        gc.verb("stale", examples=())(again)
    for declare in (
        lambda: verb("unheard-of", section="Nowhere", examples=()),
        lambda: group("unheard-of", section="Nowhere", doc="Nothing."),
    ):
        with pytest.raises(ValueError, match="not a section"):
            declare()
    assert find_entry("unheard-of") is None


def test_docstring_of_an_unknown_parameter_is_refused() -> None:
    async def odd(caller: Any, there: str) -> None:
        """Do nothing.

        Args:
            there: a word.
            gone: no parameter.
        """

    with pytest.raises(ValueError, match="unheard-of has no parameter gone"):
        verb("unheard-of", section="Looking", examples=())(odd)
    assert find_entry("unheard-of") is None


FILES_OF_SEVERAL_VERBS = {
    "approval": {"allow", "approvals", "deny"},
    "build": {"export"},
    "bags": {"drop", "edit", "link", "move", "put", "restore"},
    "describe": {"vibe"},
    "equip": {"unequip"},
    "exits": {"route"},
    "file": {"files"},
    "file_changes": {"file"},
    "file_edit": {"file"},
    "file_patch": {"file"},
    "file_search": {"file"},
    "file_versions": {"file"},
    "mem_edit": {"mem"},
    "mem_project": {"mem"},
    "mem_project_members": {"mem"},
    "mem_session": {"mem"},
    "mem_versions": {"mem"},
    "mem_session_lines": {"mem"},
    "tool_set": {"tool"},
    "tool_state": {"tool"},
    "toolset_link": {"toolset"},
    "inventory": {"inv"},
    "join": {"go", "leave"},
    "journal": {"decide", "idea", "milestone", "note"},
    "load": {"unload"},
    "moderation": {"ban", "kick", "mute", "unban", "unmute"},
    "namespace": {"namespaces"},
    "portal": {"unportal"},
    "room_models": {"room"},
    "say": {"me"},
    "sql": {"schema"}, "tell": {"reply"},
    "thing_versions": {"history", "revert"},
}  # fmt: skip
"""The verbs that stand in a file of another name. A verb that does not belong here gets a file."""


def test_verb_is_in_the_file_of_its_name() -> None:
    others: dict[str, set[str]] = {}
    for declared in every_verb():
        module = declared.run.__module__.rpartition(".")[2]
        if (word := declared.name.split()[0]) != module:
            others.setdefault(module, set()).add(word)
    assert others == FILES_OF_SEVERAL_VERBS


def test_no_two_verbs_have_the_same_body() -> None:
    """Another word for a verb is a spelling of its group."""
    verbs_by_body: dict[str, str] = {}
    for one in every_verb():
        tree = ast.parse(textwrap.dedent(inspect.getsource(one.run))).body[0]
        assert isinstance(tree, ast.AsyncFunctionDef)
        body = "\n".join(map(ast.unparse, tree.body[1:]))
        twin = verbs_by_body.setdefault(body, one.name)
        assert twin == one.name, f"{one.name} and {twin}"
