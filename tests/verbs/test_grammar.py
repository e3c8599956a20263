"""From a line to arguments: understood, or refused with a mark at the word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sshwarma.verbs.arguments import AgentName, ModelName, RoomName, ThingName
from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.grammar import UnknownFlag, parse_call
from sshwarma.verbs.registry import (
    Verb,
    VerbGroup,
    every_entry,
    every_verb,
    find_entry,
    find_verb,
    verb_names,
    write_line,
)
from sshwarma.world.errors import Invalid, NotFound, WorldError
from sshwarma.world.reader import PERSON


def parsed(line: str) -> dict[str, Any]:
    verb, start = split_verb(line)
    return parse_call(verb, line, start)[1]


def at_fault(line: str) -> str:
    """The part of the line that a refusal points at."""
    with pytest.raises(WorldError) as caught:
        parsed(line)
    assert caught.value.span is not None
    start, end = caught.value.span
    return line[start:end]


pieces = st.one_of(
    st.sampled_from(
        ["--", "--yes", "--both", "--priority", "--priority=1", "--n", "=", "to", '"', "'", "\\",
         '"a b"', "room", "me", "@x", "-1", "9" * 30, "nan", "\n", "\t", "\u2028", "\ud800", "\x00"]
    ),
    st.text(max_size=8),
)  # fmt: skip
lines = st.builds(
    lambda name, words, gap: f"/{name}{gap}{gap.join(words)}",
    st.sampled_from([*verb_names(), *(verb.name for verb in every_verb())]) | st.text(max_size=6),
    st.lists(pieces, max_size=6),
    st.sampled_from([" ", "  ", "\t", " \n"]),
)


@settings(max_examples=600, deadline=None)
@given(lines)
def test_any_line_is_parsed_or_refused_with_a_span(line: str) -> None:
    try:
        arguments = parsed(line)
    except WorldError as refused:
        assert refused.message
        if refused.span is not None:
            start, end = refused.span
            assert 0 <= start <= end <= len(line)
    else:
        verb, _start = split_verb(line)
        assert set(arguments) == {parameter.name for parameter in verb.parameters}


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_free_text_is_taken_verbatim(text: str) -> None:
    line = f"/say {text}"
    if not text.strip():
        with pytest.raises(Invalid, match="needs TEXT"):
            parsed(line)
    else:
        assert parsed(line) == {"text": text[len(text) - len(text.lstrip()) :]}


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1))
def test_any_word_can_be_quoted(word: str) -> None:
    for quote in "\"'":
        inside = word.replace("\\", "\\\\").replace(quote, "\\" + quote)
        line = f"/join {quote}{inside}{quote}"
        assert parsed(line) == {"room": word}


def test_words_and_quotes_are_parsed() -> None:
    assert parsed("/tell bob  hi there ") == {"name": "bob", "text": "hi there "}
    assert parsed('/tell "bob" "quoted" text')["text"] == '"quoted" text'
    assert parsed("/join o'neill") == {"room": "o'neill"}
    assert parsed("/join ''") == {"room": ""}
    assert at_fault('/join "work') == '"work'
    assert at_fault("/join 'a\\'") == "'a\\'"


def test_usage_of_a_verb_ends_with_its_free_text() -> None:
    verb, _ = split_verb("/skill edit")
    assert verb.usage == "/skill edit NAME [--description DESCRIPTION] [= TEXT…]"


def test_flags_may_stand_anywhere_before_free_text() -> None:
    expected = {"direction": "north", "to": "studio", "both": True}
    for line in ("/portal north studio --both", "/portal --both north studio",
                 "/portal north --both studio", "/portal north studio --both=true"):  # fmt: skip
        assert parsed(line) == expected
    assert parsed("/portal north studio --both=no")["both"] is False
    assert parsed("/equip room a,b --priority -2.5 c") == {
        "context": "room", "patterns": "a,b c", "priority": -2.5,
    }  # fmt: skip
    assert parsed("/equip room x --priority=1")["priority"] == 1
    assert parsed("/skill new terse --description short = Be --description brief") == {
        "name": "terse", "description": "short", "text": "Be --description brief",
    }  # fmt: skip
    for line in ('/search --n 5 relay "a box" --dropped', '/search relay --dropped "a box" --n=5'):
        assert parsed(line) == {"text": 'relay "a box"', "n": 5, "dropped": True, "only": None}
    assert parsed("/say --not a flag") == {"text": "--not a flag"}
    assert parsed("/say -- x") == {"text": "-- x"}


def test_particles_are_optional() -> None:
    assert parsed("/move note to home") == parsed("/move note home") == {
        "name": "note", "to": "home",
    }  # fmt: skip
    assert parsed("/put a = b = c") == {"name": "a", "text": "b = c"}
    assert parsed("/put a b") == {"name": "a", "text": "b"}
    assert parsed("/put a =") == {"name": "a", "text": ""}
    assert parsed("/put a =   two  spaces  ") == {"name": "a", "text": "  two  spaces  "}
    assert parsed("/put a = = b")["text"] == "= b"
    assert at_fault("/move note to") == "to"


def test_line_may_contain_newlines() -> None:
    assert parsed("/put a = one\ntwo\n") == {"name": "a", "text": "one\ntwo\n"}


@pytest.mark.parametrize("line", ["/put a --room den = b", "/put a --room", "/tool new a --x = b"])
def test_flag_before_a_text_after_equals_is_never_part_of_the_text(line: str) -> None:
    with pytest.raises(UnknownFlag, match="has no flag --") as caught:
        parsed(line)
    assert "A text that begins with -- goes after = or after --." in caught.value.hint_for(PERSON)


@pytest.mark.parametrize("start", ["=", "--"])
def test_text_that_begins_with_dashes_follows_equals_or_dashes(start: str) -> None:
    assert parsed(f"/put a {start} --room den")["text"] == "--room den"
    edited = parsed(f"/skill edit a --description b {start} --description c")
    assert (edited["description"], edited["text"]) == ("b", "--description c")
    assert parsed("/say one\n\n  two") == {"text": "one\n\n  two"}


@pytest.mark.parametrize(("line", "fault"), [
    ("/jion x", "/jion"),
    ("/", "/"),
    ("/join", ""),
    ("/join a b c", "b c"),
    ("/portal north studio --back", "--back"),
    ("/equip room x --priority", "--priority"),
    ("/equip room x --priority high", "--priority high"),
    ("/history --before 0", "--before 0"),
    ("/history --before=two", "--before=two"),
    ("/gc orphan", "orphan"),
    ("/file", ""),
    ("/gc  --now", "--now"),
    ("/message 30", "30"),
    ("/tool  lsit  x", "lsit"),
    ("/history 20 words", "words"),
    ("/history search relay --n none", "--n none"),
    ("/message show", ""),
    ("/message list 1.5", "1.5"),
    ("/gc stale -1", "-1"),
    ("/gc stale 99999", "99999"),
    ("/gc stale 1.5", "1.5"),
    ("/nav maybe", "maybe"),
    ("/room nonsense bob", "nonsense"),
    ("/move note to mars", "mars"),
])  # fmt: skip
def test_refusal_points_at_the_wrong_word(line: str, fault: str) -> None:
    assert at_fault(line) == fault


@pytest.mark.parametrize(("typed", "meant"), [
    ("/jion", "/join"), ("/lok", "/look"), ("/hlep", "/help"), ("/eqip", "/equip"),
])  # fmt: skip
def test_unknown_verb_suggests_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(NotFound) as caught:
        split_verb(typed)
    assert meant in caught.value.hint_for(PERSON)


def test_verb_is_found_in_any_case_and_by_its_aliases() -> None:
    for verb in every_verb():
        for name in (verb.name, *verb.aliases):
            assert split_verb(f"/{name.upper()} x")[0] is verb
    for entry in every_entry():
        for name in entry.aliases:
            assert find_entry(f"/{name.upper()}") is entry


GROUPS = [entry for entry in every_entry() if isinstance(entry, VerbGroup)]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_unknown_action_suggests_the_nearest(group: VerbGroup) -> None:
    if group.default_takes_words:
        verb, start = split_verb(f"/{group.name} nonsense-xyz")
        name = f"{group.name} {group.default}" if group.default else group.spellings[""]
        if group.name_action:
            name = f"{group.name} {group.name_action}"
        assert (verb.name, start) == (name, len(group.name) + 1)
        return
    for action in group.actions:
        first, _, word = action.rpartition(" ")
        name = f"{group.name} {first}".rstrip()
        line = f"/{name} {word}x  more words"
        assert at_fault(line) == f"{word}x"
        with pytest.raises(Invalid, match=f"Unknown action {word}x of /{name}") as caught:
            parsed(line)
        assert caught.value.hint_for(PERSON).startswith(f"Did you mean /{name} ")
    with pytest.raises(Invalid, match="Unknown action") as caught:
        parsed(f"/{group.name} {'9' * 60}")
    known = ", ".join(group.list_words())
    assert caught.value.hint_for(PERSON) == f"/{group.name} has {known}."


def test_unknown_action_that_is_a_verb_is_named() -> None:
    with pytest.raises(Invalid, match="Unknown action create of /room") as caught:
        parsed("/room create attic")
    assert caught.value.hint_for(PERSON).startswith("There is /create. /room has show, open,")


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_group_name_alone_runs_its_default_or_lists_its_actions(group: VerbGroup) -> None:
    for line in (f"/{group.name}", f"/{group.name}  "):
        if group.default or group.spellings:
            assert split_verb(line) == (group.default_for(None), len(group.name) + 1)
            continue
        actions = ", ".join(group.actions)
        with pytest.raises(Invalid, match=f"/{group.name} needs an action: {actions}") as caught:
            parsed(line)
        assert caught.value.hint_for(PERSON) == f"/help {group.name} describes them."


def test_default_action_of_a_group_takes_flags_and_words() -> None:
    taken = {"before": None, "at": None, "row": None, "tools": False}
    for line in ("/history 50", "/history show 50"):
        assert split_verb(line)[0].name == "history show"
        assert parsed(line) == {"agent": None, "n": 50, **taken}
    bobs = {**taken, "agent": "@bob"}
    assert parsed("/history @bob --before 3") == {**bobs, "n": 20, "before": 3}
    assert parsed("/history @bob 5") == parsed("/history --tools=no @bob 5") == {**bobs, "n": 5}
    assert parsed("/history --tools") == {**taken, "agent": None, "n": 20, "tools": True}
    found = {"text": "50 times", "n": 20, "dropped": False, "only": None}
    assert parsed("/history search 50 times") == found
    assert parsed("/notes @qwen") == parsed("/notes show @qwen") == {"model": "@qwen"}
    assert parsed("/message") == {"n": 10}
    assert at_fault("/message @bob") == "@bob", "a default takes no words unless its group says so"


def test_a_word_may_stand_for_a_flag() -> None:
    usual = {"name": "bob", "minutes": None, "reason": None}
    assert parsed("/mute bob") == usual
    assert parsed("/mute bob 5 spam") == {**usual, "minutes": 5, "reason": "spam"}
    spam = {"name": "bob", "minutes": "forever", "reason": "spam"}
    assert parsed("/ban bob forever spam") == parsed("/ban bob --forever spam") == spam
    assert at_fault("/mute bob never") == "never"
    assert at_fault("/mute bob 5 --forever") == "--forever"


@pytest.mark.parametrize(
    ("line", "called", "arguments"),
    [
        ("/mute bob off", "unmute", {"name": "bob", "reason": None}),
        ("/mute bob --off", "unmute", {"name": "bob", "reason": None}),
        ("/mute --off bob sorry", "unmute", {"name": "bob", "reason": "sorry"}),
        ("/ban bob off sorry", "unban", {"name": "bob", "reason": "sorry"}),
        ("/history --stats", "history stats", {}),
        ("/history show --stats", "history stats", {}),
    ],
)
def test_flag_may_spell_another_call(line: str, called: str, arguments: dict[str, Any]) -> None:
    verb, start = split_verb(line)
    parsed_verb, parsed_arguments = parse_call(verb, line, start)
    assert (parsed_verb.name, parsed_arguments) == (called, arguments)


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("/state", "/notes"), ("/state @qwen", "/notes @qwen"), ("/state qwen", "/notes qwen"),
        ("/state show @qwen", "/notes show @qwen"), ("/state clear", "/notes clear"),
        ("/STATE CLEAR @qwen", "/notes clear @qwen"),
    ],
)  # fmt: skip
def test_group_may_spell_verbs_of_another(line: str, called: str) -> None:
    assert split_verb(line)[0] is split_verb(called)[0]
    assert parsed(line) == parsed(called)


def test_spelled_call_takes_only_its_own_arguments() -> None:
    for line in ("/mute bob 5 --off", "/history 50 --stats", "/history --tools --stats"):
        with pytest.raises(Invalid, match="unknown argument"):
            parsed(line)


def test_prompt_of_a_model_is_typed_as_a_flag_or_as_text() -> None:
    words = "/model add qwen ollama qwen3:8b"
    for line in (f"{words} Be terse.", f'{words} --prompt "Be terse."',
                 '/model add --prompt "Be terse." qwen ollama qwen3:8b'):  # fmt: skip
        assert parsed(line)["prompt"] == "Be terse."
    assert at_fault(f"{words} --prompt terse verbose") == "verbose"


def test_arguments_that_exclude_each_other_are_refused_at_the_second() -> None:
    assert at_fault("/history --row 3 --tools") == "--tools"
    assert at_fault("/history --at 3 --before 9") == "--before 9"
    assert parsed("/history @bob --row 3")["row"] == 3


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("/history serch ship", "/history search"),
        ("/history shwo", "/history show"),
        ("/nav shw", "/nav show"),
        ("/state lsit", "/state list"),
        ("/mcp ad", "/mcp add"),
        ("/mcp_list", "/mcp list"),
    ],
)
def test_a_mistyped_action_suggests_the_near_one(line: str, near: str) -> None:
    with pytest.raises(WorldError) as caught:
        parsed(line)
    assert caught.value.hint_for(PERSON) == f"Did you mean {near}?"


def test_missing_argument_is_named_with_its_help() -> None:
    with pytest.raises(
        Invalid, match=r"/tell needs NAME \(the agent; a unique prefix is enough"
    ) as caught:
        parsed("/tell")
    assert caught.value.hint_for(PERSON) == "Usage: /tell NAME TEXT…"
    with pytest.raises(Invalid, match="/file needs an action: "):
        parsed("/file")


def test_argument_types_with_different_completers_are_distinct() -> None:
    """`typing` caches `Annotated`: equal types would complete as the first one made."""
    assert len({RoomName, AgentName, ModelName, ThingName}) == 4


def test_quotes_and_flags_are_parsed_in_linear_time() -> None:
    # Reading these was quadratic: minutes of the whole server for one line of anyone.
    with pytest.raises(Invalid, match="The quote ' is not closed"):
        parsed("/examine '" + "a" * 2_000_000)
    assert parsed("/examine '" + "b" * 100_000 + "\\'c'")["thing"] == "b" * 100_000 + "'c"
    with pytest.raises(Invalid, match="at most 32 entries"):
        parsed("/mcp add x " + "--header a:b " * 80_000 + "-- run")
    patterns = parsed("/equip room " + "a " * 200_000)["patterns"]
    assert len(patterns) == 399_999


def test_flag_that_is_neither_true_nor_false_is_refused_plainly() -> None:
    with pytest.raises(Invalid, match=r"--tools: must be true or false \(got maybe\)\."):
        parsed("/history --tools=maybe")


@pytest.mark.parametrize("example", [example for verb in every_verb() for example in verb.examples])
def test_written_line_is_read_as_the_same_call(example: str) -> None:
    verb, arguments = parse_call(*call_of(example))
    set_arguments = {
        name: value for name, value in arguments.items() if verb.is_given(arguments, name)
    }
    written = write_line(verb, set_arguments)
    again, parsed_again = parse_call(*call_of(written))
    assert (again, parsed_again) == (verb, arguments), written


def call_of(line: str) -> tuple[Verb, str, int]:
    """The verb that a line begins with, the line, and where its arguments begin."""
    verb, start = split_verb(line)
    return verb, line, start


def test_written_line_quotes_words_and_ends_with_free_text() -> None:
    skill = find_verb("skill new")
    assert skill is not None
    call = {"name": "x", "text": "y z", "description": "two 'words'"}
    line = write_line(skill, call)
    assert line == "/skill new x --description 'two \\'words\\'' = y z"
    assert parse_call(*call_of(line))[1] == call
