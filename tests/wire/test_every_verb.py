"""A verb that lacks help, an example, a result view or an end-to-end test cannot exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest

import sshwarma.verbs as declared
from sshwarma.verbs.grammar import parse_call, split_verb
from sshwarma.verbs.registry import Verb, every_verb
from support.driver.covers import covered
from support.views import has_view

VERBS = list(every_verb()) if declared else []
COVERED = list(covered(Path(__file__).parent))

each_verb = pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)


def test_registry_has_verbs() -> None:
    assert len(VERBS) > 40


@each_verb
def test_every_verb_has_a_summary_of_one_line(verb: Verb) -> None:
    assert 5 < len(verb.summary) <= 80


@each_verb
def test_every_verb_has_help_for_each_parameter(verb: Verb) -> None:
    assert [parameter.name for parameter in verb.parameters if len(parameter.help) < 4] == []


@each_verb
def test_every_verb_has_examples_that_parse_as_that_verb(verb: Verb) -> None:
    assert verb.examples
    for example in verb.examples:
        found, start = split_verb(example)
        assert found is verb
        assert parse_call(verb, example, start)[0] is verb


@each_verb
def test_every_verb_has_a_view_of_each_result(verb: Verb) -> None:
    assert [kind for kind in _kinds(verb.result_type) if not has_view(kind)] == []


@each_verb
def test_every_verb_has_an_input_schema_that_describes_each_argument(verb: Verb) -> None:
    properties = verb.input_schema["properties"]
    assert set(properties) == {parameter.name for parameter in verb.parameters}
    assert all(described.get("description") for described in properties.values())


@each_verb
def test_every_verb_has_an_end_to_end_test(verb: Verb) -> None:
    bodies = [body for name, body in COVERED if name == verb.name]
    assert bodies, f'no test under tests/wire is marked @covers("{verb.name}")'
    spoken = "|".join(map(re.escape, (verb.name, *verb.aliases)))
    used = re.compile(rf"""["'/ ](?:{spoken})\b""")
    assert any(used.search(body) for body in bodies), f"no test of {verb.name} uses it"


def test_every_covered_verb_exists() -> None:
    assert {name for name, _ in COVERED} - {verb.name for verb in VERBS} == set()


def _kinds(annotation: Any) -> Iterator[type]:
    if get_origin(annotation) in (Union, UnionType):
        for part in get_args(annotation):
            yield from _kinds(part)
    elif annotation is not type(None):
        yield annotation
