"""Hints of refusals, in each reader's words; and the detector that tests use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sshwarma
from sshwarma.verbs.registry import find_verb
from sshwarma.world.errors import Invalid, NotFound, RateLimited
from sshwarma.world.reader import (
    API_CLIENT,
    MCP_CLIENT,
    PERSON,
    TOOL_CALLER,
    TextByReader,
    next_call,
)
from support.source import nodes
from support.typed_text import names_typed


@pytest.mark.parametrize(
    "text",
    [
        "/rooms lists them.",
        "Wait 3 s; Up brings the line back.",
        "A line without a slash is said.",
        "From a shell: ssh HOST put NAME < file",
        "Removed dice. (/tool list)",
        "Allow it with --allow-private.",
    ],
)
def test_commands_flags_and_keys_are_detected(text: str) -> None:
    assert names_typed(text)


@pytest.mark.parametrize(
    "text",
    [
        "There is no file /srv/project/notes.md.",
        "https://example.org/mcp answers.",
        "Needs read/write.",
        "It takes a/b or ./c.",
        "Get/set the vibe.",
        "It waits - and then -- nothing.",
    ],
)
def test_paths_and_urls_are_not_commands(text: str) -> None:
    assert not names_typed(text)


def test_a_refusal_names_the_call_of_each_reader() -> None:
    refused = NotFound("Unknown skill x.", hint=next_call("{} lists them.", "skill list"))
    assert str(refused) == "Unknown skill x. /skill lists them."
    assert refused.text_for(TOOL_CALLER) == "Unknown skill x. skill_list lists them."
    refused = NotFound("No.", hint=next_call("{} equips it.", "equip", context="me", patterns="a"))
    assert refused.hint_for(PERSON) == "/equip me a equips it."
    assert refused.hint_for(TOOL_CALLER) == 'equip {"context": "me", "patterns": "a"} equips it.'
    assert refused.hint_for(MCP_CLIENT).startswith('inventory_equip {"context"')


def test_a_call_that_a_reader_cannot_make_is_left_out() -> None:
    refused = NotFound(
        "Unknown token x.", hint=(next_call("{} lists yours.", "token list"), "Give its id.")
    )
    assert str(refused) == "Unknown token x. /token lists yours. Give its id."
    assert refused.text_for(API_CLIENT) == "Unknown token x. Give its id."
    assert NotFound("No.", hint=next_call("{}", "no such verb")).text_for(PERSON) == "No."


def test_a_sentence_may_differ_by_reader() -> None:
    refused = Invalid("No.", hint=TextByReader("Give --about.", "Give about."))
    assert (refused.hint_for(PERSON), refused.hint_for(API_CLIENT)) == (
        "Give --about.",
        "Give about.",
    )
    assert Invalid("No.", hint=TextByReader("Press Enter.")).text_for(TOOL_CALLER) == "No."


def test_programs_read_how_long_to_wait() -> None:
    busy = RateLimited("Too many lines.", retry_after_seconds=2.1, hint="Up brings it back.")
    assert str(busy) == "Too many lines. Up brings it back."
    assert busy.text_for(API_CLIENT) == "Too many lines. Wait 3 s."


def test_arguments_are_named_as_the_reader_gives_them() -> None:
    assert PERSON.name_flag("allow_private") == "--allow-private"
    assert API_CLIENT.name_flag("allow_private") == "allow_private"


def test_every_hint_names_a_verb_and_its_parameters() -> None:
    calls = list(_calls_of_source())
    assert len(calls) > 80
    for place, name, arguments in calls:
        verb = find_verb(name)
        assert verb is not None and verb.name == name, (place, name)
        known = {parameter.name for parameter in verb.parameters}
        assert arguments <= known, (place, arguments - known)


@pytest.mark.parametrize("action", ["get", "delete", "restore"])
@pytest.mark.parametrize("of", ["project", "session"])
def test_calls_for_a_key_of_a_memory_name_a_verb(of: str, action: str) -> None:
    verb = find_verb(f"mem {of} {action}")
    assert verb is not None and "key" in {parameter.name for parameter in verb.parameters}


def _calls_of_source() -> Iterator[tuple[str, str, set[str]]]:
    """Yield place, verb and arguments of each call that a source file names."""
    sentence_first = {"next_call": 1, "hint": 1, "draw_hint": 2, "name_call": 0}
    for path in sorted(Path(sshwarma.__file__).parent.rglob("*.py")):
        for node in nodes(path):
            if not isinstance(node, ast.Call):
                continue
            called = str(getattr(node.func, "id", None) or getattr(node.func, "attr", ""))
            index = sentence_first.get(called, len(node.args))
            name = node.args[index] if index < len(node.args) else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                arguments = {keyword.arg for keyword in node.keywords if keyword.arg}
                yield f"{path.name}:{node.lineno}", name.value, arguments
