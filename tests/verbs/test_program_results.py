"""Results for models and programs name tools and arguments, and nothing typed.

Refusals are checked too.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.grammar import parse_call
from sshwarma.verbs.registry import Verb, every_verb, find_verb
from sshwarma.verbs.tool_views import NewTool
from sshwarma.verbs.views import dump_json, render_for
from sshwarma.world.access import TokenScope
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid, NotFound, WorldError
from sshwarma.world.reader import API_CLIENT, MCP_CLIENT, PERSON, TOOL_CALLER, reader_at
from support.people import Someone, arrive, come_back, do, opened
from support.typed_text import names_typed

DOORS = ("mcp", "api", "model")

OFFERED = [verb for verb in every_verb() if not verb.ssh_only]

CONNECTING = ("mcp add", "mcp login", "model test", "hook add", "hook test")
"""Verbs that connect to other programs; only their refusals are looked at."""

ABOUT_LINES = {"audit", "set", "alias"}
"""Verbs whose subject is what a person types: settings of a terminal, and lines of the caller."""

NOTHING_THERE = {
    "examine": {"thing": "zzz"}, "join": {"room": "zzz"}, "join near": {"room": "lobyb"},
    "go": {"direction": "zzz"}, "route": {"room": "zzz"}, "tell": {"name": "zzz", "text": "x"},
    "equip": {"context": "room", "patterns": "zzz"}, "load": {"room": "zzz"},
    "skill show": {"name": "zzz"}, "namespace show": {"name": "zzz"}, "mcp show": {"name": "zzz"},
    "tool show": {"name": "zzz"}, "drop": {"bag": "room", "name": "zzz"},
    "restore": {"name": "zzz"}, "expand": {"row": 999_999}, "sql": {"text": "select * from zzz"},
    "schema": {"name": "zzz"}, "find": {"query": "zzz zzz"}, "help": {"topic": "zzz"},
    "history show": {"n": "zzz"}, "room delete": {"name": "zzz"}, "message show": {"turn": "zzz"},
    "model set": {"name": "qwen", "field": "zzz", "value": "x"}, "skill edit": {"name": "zzz"},
    "namespace set": {"name": "sshwarma:look", "field": "name", "value": "x"},
}  # fmt: skip


def _at(someone: Someone, door: str) -> Caller:
    return replace(someone.caller, door=door)  # type: ignore[arg-type]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


async def _furnish(alice: Someone) -> None:
    for line in ("/put note = x", "/put todo = x", "/skill new reviewer = Look for bugs.",
                 "/skill new tidy = x", "/namespace new git Version control", "/portal north home",
                 ):  # fmt: skip
        await do(alice, line)
    for n in range(30):
        await do(alice, f"line {n} relay box")
    await do(alice, "/run sshwarma:who")
    await do(alice, "x" * 9_000)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def furnished_file(newborn: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a world in which verbs find what they need, to be copied."""
    path = shutil.copyfile(newborn, tmp_path_factory.mktemp("furnished") / "world.db")
    async with opened(Path(path)) as world:
        owner = await arrive(world, "alice", role="owner")
        await arrive(world, "bob")
        await arrive(world, "qwen", kind="model", door="model")
        await _furnish(owner)
    return Path(path)


@pytest.mark.parametrize("verb", OFFERED, ids=lambda verb: verb.path)
@pytest.mark.process
async def test_no_result_names_what_people_type(
    verb: Verb, furnished_file: Path, tmp_path: Path
) -> None:
    async with opened(Path(shutil.copyfile(furnished_file, tmp_path / "world.db"))) as world:
        come_back(world, "bob")
        come_back(world, "qwen", door="model")
        await _check_verb(come_back(world, "alice"), verb)


async def _check_verb(alice: Someone, verb: Verb) -> None:
    calls: list[dict[str, Any]] = [] if any(p.required for p in verb.parameters) else [{}]
    if verb.name not in CONNECTING:
        for example in verb.examples:
            known, start = split_verb(example)
            _, given = parse_call(known, example, start)
            calls.append({name: value for name, value in given.items() if value is not None})
    calls += [given for name, given in NOTHING_THERE.items() if name.split(" near")[0] == verb.name]
    for door in DOORS if verb.tool else ("api",):
        for given in calls:
            await _check_call(_at(alice, door), verb, given)


async def _check_call(caller: Caller, verb: Verb, given: dict[str, Any]) -> None:
    try:
        result = await invoke(caller, verb.name, given)
    except WorldError as refused:
        assert refused.message.endswith((".", "?")), refused.message
        text = refused.text_for(reader_at(caller.door))
        assert not names_typed(text), text
        return
    text, fields = render_for(reader_at(caller.door), result), dump_json(result)
    if verb.name not in ABOUT_LINES:
        for one in (text, *_texts(fields)):
            assert not names_typed(one), (verb.name, given, one)
    assert not isinstance(fields, dict) or "line" not in fields


@pytest.mark.parametrize("verb", OFFERED, ids=lambda verb: verb.path)
def test_no_description_names_what_people_type(verb: Verb) -> None:
    assert not names_typed(verb.program_description)
    assert not names_typed(verb.program_detail)
    assert verb.program_description
    for described in verb.input_schema["properties"].values():
        assert described["description"]
        assert not names_typed(described["description"])
    assert not names_typed(verb.rights)
    assert (verb.needs or "") in verb.rights, "the sentence of the rights names the least of them"


REFUSED_ARGUMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("mcp_add", {"name": "two", "target": "http://127.0.0.1:9/mcp"}, "with allow_private: true."),
    ("mcp_add", {"name": "two", "target": "https://a:b@example.org/mcp"}, "Give header: ["),
    (
        "mcp_add",
        {"name": "two", "target": "https://example.org/mcp", "oauth_machine": True},
        "oauth_machine needs oauth_client_secret",
    ),
    (
        "skill_new",
        {"name": "a", "text": "b", "description": "c" * 999},
        "description: must have at most",
    ),
    ("expand", {"start": 10**6}, "start must be at most"),
    ("portal", {"direction": "attic", "to": "lobby", "both": True}, "so both cannot"),
    (
        "model_add",
        {"name": "q", "kind": "ollama", "model": "q", "key_env": f"sk-{'aB3' * 12}"},
        "as key_env",
    ),
]


@pytest.mark.parametrize(("name", "given", "said"), REFUSED_ARGUMENTS)
async def test_refusals_name_arguments_as_programs_give_them(
    alice: Someone, name: str, given: dict[str, Any], said: str
) -> None:
    await _furnish(alice)
    with pytest.raises(WorldError) as refused:
        await invoke(_at(alice, "api"), name, given)
    text = refused.value.text_for(API_CLIENT)
    assert said in text
    assert not names_typed(text)


async def test_a_search_names_a_row_that_it_found(alice: Someone) -> None:
    await _furnish(alice)
    found = await invoke(_at(alice, "api"), "search", {"text": "relay box"})
    call = f'history_show {{"at": {found.entries[0].seq}}}'
    assert f"In its room, {call} shows the rows around the newest." in render_for(API_CLIENT, found)


async def test_an_mcp_client_is_helped_by_the_names_of_its_tools(alice: Someone) -> None:
    shown = await invoke(_at(alice, "mcp"), "help", {"topic": "inventory_equip"})
    assert shown.name == "inventory_equip"
    index = render_for(MCP_CLIENT, await invoke(_at(alice, "mcp"), "help", {}))
    assert re.search(r"^ +inventory_list ", index, re.MULTILINE)
    assert not re.search(r"^ +equip ", index, re.MULTILINE)


async def test_calls_are_named_as_the_reader_makes_them() -> None:
    given = {"n": 5, "before": 22}
    assert PERSON.name_call("history show", **given) == "/history 5 --before 22"
    assert TOOL_CALLER.name_call("history show", **given) == 'history {"n": 5, "before": 22}'
    assert API_CLIENT.name_call("history show", **given) == 'history_show {"n": 5, "before": 22}'
    assert PERSON.name_call("gc purge", days=7, yes=True) == "/gc purge 7 --yes"
    assert PERSON.name_call("skill new", name="A", text="B") == "/skill new A = B"
    assert [reader.name_call("nav show") for reader in (PERSON, TOOL_CALLER, API_CLIENT)] == [
        "/nav", "", "nav_show",
    ]  # fmt: skip
    assert API_CLIENT.name_call("token list") == ""


def test_a_new_tool_is_tested_by_a_call() -> None:
    made = NewTool("bob:t1", True, 3, "", {"properties": {}})
    assert "Try it: /tool test bob:t1" in render_for(PERSON, made)
    assert 'Try it: tool_test {"name": "bob:t1"}' in render_for(API_CLIENT, made)


async def test_older_rows_are_read_with_the_arguments_given(alice: Someone) -> None:
    await _furnish(alice)
    page = await invoke(_at(alice, "mcp"), "history", {"n": 5})
    older = {name: value for name, value in dump_json(page)["older"].items() if value is not None}
    assert older == {"before": page.entries[0].seq, "n": 5}
    assert f'older: history {{"before": {older["before"]}, "n": 5}}' in render_for(
        TOOL_CALLER, page
    ) or f'older: history {{"n": 5, "before": {older["before"]}}}' in render_for(TOOL_CALLER, page)
    before = await invoke(_at(alice, "mcp"), "history", older)
    assert before.entries[-1].seq == older["before"] - 1


async def test_help_for_programs_describes_tools_and_arguments(alice: Someone) -> None:
    names_by_door = {"mcp": ("history", "skill_add"), "api": ("history_show", "skill_new")}
    for door, (name, new_skill) in names_by_door.items():
        caller = _at(alice, door)
        index = render_for(reader_at(door), await invoke(caller, "help", {}))
        assert re.search(rf"^ +{name} +Show the conversation$", index, re.MULTILINE)
        shown = await invoke(caller, "help", {"topic": name})
        arguments = {one["name"]: one for one in dump_json(shown)["arguments"]}
        assert (arguments["n"]["type"], arguments["n"]["required"]) == ("integer", False)
        group = dump_json(await invoke(caller, "help", {"topic": "skill"}))
        listed = [tool["name"] for _, tools in group["sections"] for tool in tools]
        assert new_skill in listed and "look" not in listed
        for typed in ("editing", "keys"):
            with pytest.raises(NotFound, match="Unknown help topic"):
                await invoke(caller, "help", {"topic": typed})
        with pytest.raises(NotFound) as near:
            await invoke(caller, "help", {"topic": new_skill[:-1]})
        assert near.value.hint_for(reader_at(door)).startswith(f"Did you mean {new_skill}")
    with pytest.raises(NotFound) as unknown:
        await invoke(_at(alice, "mcp"), "help", {"topic": "mcp add"})
    assert "mcp add" in unknown.value.message, "a model has no tool of that name"


async def test_a_person_is_helped_to_a_near_action(alice: Someone) -> None:
    with pytest.raises(NotFound) as refused:
        await do(alice, "/help mcp ad")
    assert refused.value.hint_for(PERSON) == "Did you mean /help mcp add?"
    assert (await do(alice, "/help mcp_add")).name == "mcp add"


@pytest.mark.parametrize("name", ["edit", "tool edit", "quit", "token list", "token new"])
async def test_what_needs_a_terminal_or_a_key_is_refused_elsewhere(
    alice: Someone, name: str
) -> None:
    verb = find_verb(name)
    assert verb is not None and verb.ssh_only and verb.tool is None
    example = next(one for one in verb.examples if split_verb(one)[0] is verb)
    known, start = split_verb(example)
    for door in DOORS:
        with pytest.raises(Forbidden) as refused:
            await invoke(_at(alice, door), name, parse_call(known, example, start)[1])
        assert refused.value.message == f"{verb.path} works only over ssh, with your ssh key."


async def test_a_skill_is_edited_by_its_text_or_description(alice: Someone) -> None:
    await do(alice, "/skill new rev = x")
    caller = _at(alice, "mcp")
    with pytest.raises(Invalid, match="give text or description"):
        await invoke(caller, "skill_edit", {"name": "rev"})
    await invoke(caller, "skill_edit", {"name": "rev", "text": "y"})
    await invoke(caller, "skill_edit", {"name": "rev", "description": "z"})
    shown = await invoke(caller, "skill_show", {"name": "rev"})
    assert (shown.text, shown.description) == ("y", "z")
    skill_edit = find_verb("skill_edit")
    assert skill_edit is not None
    assert set(skill_edit.result_adapter.json_schema(mode="serialization")["properties"]) == {
        "text"
    }


async def test_numbers_are_integers_for_programs(alice: Someone, bob: Someone) -> None:
    for name, argument in (("history_show", "n"), ("message_list", "n")):
        verb = find_verb(name)
        assert verb is not None
        described = verb.input_schema["properties"][argument]
        kinds = {one.get("type") for one in described.get("anyOf", [described])}
        assert kinds - {"null"} == {"integer"}
    caller = _at(alice, "api")
    done = await invoke(caller, "mute", {"name": "bob", "minutes": 5})
    assert done.text == "bob is muted in lobby for 5 min."
    assert (await invoke(caller, "ban", {"name": "bob", "minutes": "forever"})).text.endswith(
        "forever."
    )
    assert "no longer" in (await invoke(caller, "unban", {"name": "bob"})).text
    with pytest.raises(Invalid, match="off: unknown argument"):
        await invoke(caller, "mute", {"name": "bob", "off": True})
    with pytest.raises(Invalid):
        await invoke(caller, "mute", {"name": "bob", "minutes": 0})


CLOSED = [
    ("model_add", "kind", "ollama"), ("model_set", "field", "prompt"),
    ("namespace_set", "field", "keywords"), ("set", "setting", "theme"),
    ("journal", "kind", "note"), ("move", "to", "home"), ("drop", "bag", "room"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "argument", "value"), CLOSED)
def test_a_closed_set_of_values_is_an_enum(name: str, argument: str, value: str) -> None:
    verb = find_verb(name)
    assert verb is not None
    described = verb.input_schema["properties"][argument]
    assert value in [
        allowed for one in described.get("anyOf", [described]) for allowed in one.get("enum", ())
    ]


@pytest.mark.parametrize(
    ("name", "argument"), [("equip", "context"), ("load", "context"), ("skill_activate", "context")]
)
def test_a_context_has_a_pattern(name: str, argument: str) -> None:
    verb = find_verb(name)
    assert verb is not None
    described = verb.input_schema["properties"][argument]
    patterns = [one["pattern"] for one in described.get("anyOf", [described]) if "pattern" in one]
    assert len(patterns) == 1
    assert all(re.match(patterns[0], word) for word in ("room", "me", "@qwen"))
    assert not re.match(patterns[0], "lobby")


@pytest.mark.parametrize("name", ["vibe", "describe", "context_window", "alias", "set"])
async def test_showing_needs_the_scope_read_and_changing_more(alice: Someone, name: str) -> None:
    verb = find_verb(name)
    assert verb is not None
    assert verb.scope is TokenScope.READ
    assert verb.change_scope is not TokenScope.READ
    caller = replace(_at(alice, "api"), scope=TokenScope.READ)
    await invoke(caller, name, {})
    changes: dict[str, dict[str, Any]] = {
        "context_window": {"size": 3},
        "alias": {"name": "z", "meaning": "/look"},
        "set": {"setting": "plain", "value": "on"},
    }
    with pytest.raises(Forbidden, match="needs the scope"):
        await invoke(caller, name, changes.get(name, {"text": "calm"}))


async def test_a_scope_is_suggested_only_to_who_has_the_right(
    alice: Someone, bob: Someone, guest: Someone
) -> None:
    given = {"context": "room", "patterns": "sshwarma:put"}
    for who, message in (
        (guest, "needs the build right in lobby"),
        (alice, "needs the scope build; this token has act"),
    ):
        caller = replace(_at(who, "mcp"), scope=TokenScope.ACT)
        with pytest.raises(Forbidden, match=message) as refused:
            await invoke(caller, "equip", given)
        assert refused.value.hint_for(MCP_CLIENT).endswith("Use the context me for yourself alone.")
        assert "scope" in refused.value.hint_for(MCP_CLIENT) or who is guest
        await invoke(caller, "equip", {**given, "context": "me"})
    with pytest.raises(Forbidden) as missing:
        await invoke(replace(_at(guest, "mcp"), scope=TokenScope.ACT), "create", {"room": "den"})
    assert "needs the create right" in missing.value.message


async def test_deleting_a_room_by_a_wrong_name_says_so_at_every_door(alice: Someone) -> None:
    await do(alice, "/create den")
    for door in ("ssh", "api"):
        with pytest.raises(Invalid) as refused:
            await invoke(_at(alice, door), "room_delete", {"name": "zzz"})
        assert refused.value.message == "zzz is not the name of this room, which is den."
        assert refused.value.hint_for(MCP_CLIENT)


def test_the_help_names_the_right_that_a_turn_or_tool_of_somebody_else_needs() -> None:
    for name, rights in (
        ("message drop", ("enter", "moderate")),
        ("message restore", ("enter", "moderate")),
        ("tool new", ("build", "enter", "create", "admin")),
    ):
        verb = find_verb(name)
        assert verb is not None
        assert all(re.search(rf"\b{right}\b", verb.rights) for right in rights), verb.rights
