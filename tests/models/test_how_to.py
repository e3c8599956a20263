"""How-to texts: what they name exists, and the guide finds them by a question."""

from __future__ import annotations

import re

import pytest

from sshwarma.cli.main import cli
from sshwarma.models.guide import find_rule
from sshwarma.models.how_to import HowTo, HowToSearch, parse_how_tos
from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.help import load_help_topics, load_how_tos
from sshwarma.verbs.registry import find_entry

from .guide_questions import HELD_OUT, LATER, NEXT, TUNED

HOW_TOS = load_how_tos()
SEARCH = HowToSearch(HOW_TOS)

NEEDED_SHARE = 0.9
"""Share of the questions of newcomers that get the right text: 27 of 30."""


def answer(question: str) -> str:
    """The name of the text that answers a question, or of the tool."""
    rule = find_rule(f"@guide {question}")
    if rule is not None:
        return f"tool:{rule.tool.partition(':')[2]}"
    found = SEARCH.find(question)
    return found.name if found is not None else ""


@pytest.mark.parametrize(
    "questions", [TUNED, HELD_OUT, LATER, NEXT], ids=["tuned", "held out", "later", "next"]
)
def test_guide_finds_the_right_text(questions: tuple[tuple[str, str], ...]) -> None:
    wrong = [
        f"{question}: {answer(question) or 'none'}, not {wanted}"
        for question, wanted in questions
        if answer(question) not in wanted.split("|")
    ]
    assert len(wrong) <= (1 - NEEDED_SHARE) * len(questions), "\n".join(wrong)


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("what is a room", "rooms"),
        ("how do I equip a tool", "equip"),
        ("equip a tool", "equip"),
        ("connect claude", "connect-agent"),
        ("how do I invite a friend", "invite"),
        ("how do i invitte a freind", "invite"),
        ("make my room privat", "private-room"),
        ("how do I delete a room I made", "delete-room"),
        ("delete something I made", "delete"),
        ("how to see pictures here", "images"),
        ("show pictures in my terminal", "images"),
        ("mute notifications", "settings"),
        ("how do I turn off the beeping?", "settings"),
        ("mute an annoying user", "moderate"),
    ],
)
def test_question_gets_a_text_and_no_listing(question: str, wanted: str) -> None:
    assert answer(question) == wanted


@pytest.mark.parametrize(
    "question", ["", "!", "the a of", "sing!", "x" * 5000, "日本語", "a " * 9999]
)
def test_no_text_is_found_for_other_words(question: str) -> None:
    assert SEARCH.find(question) is None
    assert HowToSearch(()).find("a room") is None


def test_texts_name_what_was_asked_for() -> None:
    texts = {how_to.name: how_to.text for how_to in HOW_TOS}
    assert "/set bell off" in texts["settings"]
    assert "/room restore den" in texts["delete-room"]
    assert "/set images on" in texts["images"]


def test_each_text_has_a_name_and_phrases_of_its_own() -> None:
    assert len({how_to.name for how_to in HOW_TOS}) == len(HOW_TOS)
    phrases = [phrase.lower() for how_to in HOW_TOS for phrase in how_to.phrases]
    assert sorted({phrase for phrase in phrases if phrases.count(phrase) > 1}) == []


@pytest.mark.parametrize("how_to", HOW_TOS, ids=lambda how_to: how_to.name)
def test_commands_of_a_text_exist(how_to: HowTo) -> None:
    commands = [line.strip() for line in how_to.text.split("\n") if line.startswith("  ")]
    assert commands
    assert len(commands) <= 6, "two or three commands are enough"
    for line in commands:
        assert len(line) <= 110, line
        if line.startswith("/"):
            split_verb(re.split(r"  +", line)[0])
    for name in re.findall(r"(?<![\w/.}])/([a-z]+)\b", how_to.text):
        assert find_entry(name) or name in ("srv", "api", "a", "n", "greet"), name
    for topic in re.findall(r"/help ([a-z-]+)", how_to.text):
        assert topic in load_help_topics() or find_entry(topic), topic
    for word in re.findall(r"sshwarma ([a-z]+)\b", how_to.text):
        assert word in cli.commands or word in ("is", "runs"), word


def test_texts_are_read_from_headings_phrases_and_paragraphs() -> None:
    source = "## go: Go\n? walk; run;\n? move on\nOne\nline.\n  /go north\nEnd.\n\n## b: B\n? c\nD"
    go, b = parse_how_tos(source)
    assert go == HowTo("go", "Go", ("walk", "run", "move on"), "One line.\n  /go north\nEnd.")
    assert (b.phrases, b.text) == (("c",), "D")
