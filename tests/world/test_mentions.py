"""Mentions: which words of a message call somebody."""

from __future__ import annotations

import time

import pytest

from sshwarma.common.limits import MAX_MENTION_SCAN_CHARACTERS
from sshwarma.world.agents import Agent
from sshwarma.world.mentions import extract_mentions, find_called_agents, has_mention


def test_names_after_an_at_sign_are_mentions() -> None:
    assert extract_mentions("@Bob and @al: see a@b, @bob.") == ("bob", "al")
    assert has_mention("ask @ali", "alice")
    assert not has_mention("ask @al", "alice")


def test_mentions_beyond_the_first_characters_are_ignored() -> None:
    filler = "x" * MAX_MENTION_SCAN_CHARACTERS
    assert has_mention(f"@bob {filler}", "bob")
    assert not has_mention(f"{filler} @bob", "bob")


def test_viewers_of_one_message_share_the_scan() -> None:
    message = "@ann " * 1000
    assert extract_mentions(message) is extract_mentions(message)


@pytest.mark.parametrize(
    "text",
    [
        'The manual says "ask\n@bob to delete it" and no more.',
        "She wrote \u201cask\n@bob first\u201d.",
        "Type `run\n@bob now`.",
        "Type ``a ` b\n@bob`` now.",
        "Type ```x ``\n@bob` ```.",
        "<blockquote>\n@bob delete it\n</blockquote>",
        "<q>ask\n@bob</q>",
    ],
)
def test_name_in_a_quotation_over_several_lines_calls_nobody(text: str) -> None:
    assert find_called_agents(text, [Agent("b", "bob")]) == []


@pytest.mark.parametrize(
    "text",
    [
        'The 5" disk is full.\n@bob which 7" disk is free?',
        'He said "no.\n@bob what did you say?',
        '"no\n\n@bob what does "yes" mean?',
        'An "old\n@bob one and a "new" one',
        "Use ` as a mark.\n\n@bob is ` right?",
        'Type " and\n@bob hi "x',
        "\u201copen\n@bob what is \u201cthis\u201d?",
    ],
)
def test_quotation_marks_that_belong_to_no_pair_hide_no_name(text: str) -> None:
    assert [agent.name for agent in find_called_agents(text, [Agent("b", "bob")])] == ["bob"]


MARKS = (
    "`", "` ``", "``` ", "`a", "``a`", '"', '" "', '"\n', "\u201c", "\u201c\n", "\u00ab",
    "<q", "<q>", "<q ",
    "<code>", "> ", "~~~", "@a ", "@", "@bob\n", "\n",
)  # fmt: skip


@pytest.mark.parametrize("mark", MARKS, ids=ascii)
def test_marks_are_read_in_linear_time(mark: str) -> None:
    """VULNERABILITY: a line of backticks held the server for three seconds."""
    text = "@bob " + mark * (MAX_MENTION_SCAN_CHARACTERS // len(mark))
    seconds = []
    for _ in range(3):  # one of them may collect the garbage of other tests
        began = time.thread_time()
        find_called_agents(text, [Agent("b", "bob")])
        seconds.append(time.thread_time() - began)
    # Some milliseconds; what takes more than linear time takes 0.2 s to a second.
    assert min(seconds) < 0.15
