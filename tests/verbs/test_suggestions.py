"""What a refusal suggests for a mistyped name, and for a word of other worlds."""

from __future__ import annotations

import pytest

from sshwarma.common.near_names import find_near_names
from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.registry import find_entry, find_verb
from sshwarma.verbs.verb_synonyms import NO_SUCH_VERB, SYNONYMS, TALK_WORDS, find_slash_line
from support.people import Someone, do, make, refused


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("/join worksop", "Did you mean workshop?"),
        ("/go nroth", "Did you mean north? Exits: north."),
        ("/unportal nroth", "Did you mean north? Exits: north."),
        ("/look nroth", "Did you mean north?"),
        ("/look shoping", "Did you mean shopping?"),
        ("/examine me:secrt", "Did you mean me:secret?"),
        ("/examine worksop", "Did you mean workshop?"),
        ("/examine bbo", "Did you mean bob?"),
        ("/examine @bbo", "Did you mean bob?"),
        ("/set plian on", "Did you mean plain?"),
        ("/alias shuot = -", "Did you mean shout?"),
        ("/shuot hi", "Did you mean /shout?"),
        ("/run dcie", "Did you mean den:dice"),
        ("/tool show dcie", "Did you mean den:dice"),
        ("/equip me den:dcie", "Did you mean den:dice?"),
        ("/restore olld", "Did you mean old?"),
        ("/skill show reviwer", "Did you mean reviewer?"),
        ("/namespace set gti description x", "Did you mean git?"),
        ("/namespace set git descripton x", "Did you mean description?"),
        ("/help portl", "Did you mean portal"),
    ],
)
async def test_mistyped_name_gets_the_nearest(
    alice: Someone, bob: Someone, line: str, suggestion: str
) -> None:
    for setup in (
        "/create workshop",
        "/join lobby",
        "/portal north workshop",
        "/put shopping = eggs",
        "/put old = x",
        "/drop room old",
        "/put me:secret = x",
        "/alias shout = /me shouts",
        "/skill new reviewer = Look for bugs.",
        "/namespace new git",
    ):
        await do(alice, setup)
    runs = {"runs": "lua"}
    await make(alice.world, alice.room_id, "tool", "dice", qualified_name="den:dice", metadata=runs)
    await do(alice, "/equip room den:dice")
    assert suggestion in str(await refused(alice, line))


def test_names_are_compared_without_their_namespace() -> None:
    assert find_near_names("dcie", ["den:dice", "git:log"]) == ["den:dice"]
    assert find_near_names("dice", ["den:dice"]) == ["den:dice"]
    assert find_near_names("den:dcie", ["den:dice"]) == ["den:dice"]
    assert find_near_names("dice", ["dice", "den:dice"]) == []


def test_synonyms_are_no_verbs_and_their_lines_are() -> None:
    assert {"north", "n", "take", "emote", "whisper", "newroom"} <= set(SYNONYMS)
    assert {"nick", "afk"} <= set(NO_SUCH_VERB)
    for word, synonym in SYNONYMS.items():
        assert find_entry(word) is None, word
        assert split_verb(synonym.line)[0] is find_verb(synonym.verb), word
    assert not set(SYNONYMS) & set(NO_SUCH_VERB)
    assert all(find_entry(word) or word in SYNONYMS for word in TALK_WORDS)


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("/north", "Did you mean /go north?"),
        ("/n", "Did you mean /go north?"),
        ("/take lamp", "Did you mean /move NAME to me?"),
        ("/emote waves", "Did you mean /me waves?"),
        ("/whisper bob hi", "Did you mean /tell NAME TEXT?"),
        ("/newroom", "Did you mean /create NAME?"),
        ("/nick joe", "The name of an account cannot be changed"),
    ],
)
async def test_word_of_another_world_gets_the_verb_of_that_meaning(
    alice: Someone, line: str, suggestion: str
) -> None:
    assert suggestion in str(await refused(alice, line))


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("help", "/help"),
        ("Help!", "/help"),
        ("quit", "/quit"),
        ("north", "/go north"),
        ("Go north.", "/go north"),
        ("go on", ""),
        ("who", "/who"),
        ("hello", ""),
        ("help me with this", ""),
        ("bye", ""),
        ("//help", ""),
    ],
)
async def test_bare_command_word_is_said_with_a_note(alice: Someone, said: str, line: str) -> None:
    assert find_slash_line(said) == line
    note = (await do(alice, said)).note
    assert note == (f"You said that to the room. The verb is {line}" if line else "")


async def test_hint_at_a_bare_command_word_is_given_once(alice: Someone, bob: Someone) -> None:
    for someone in (alice, bob):
        notes = [(await do(someone, said)).note for said in ("look", "Look", "who", "look")]
        assert [bool(note) for note in notes] == [True, False, True, False]
