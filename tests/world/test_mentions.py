"""Mentions: which words of a message call somebody."""

from __future__ import annotations

from sshwarma.common.limits import MAX_MENTION_SCAN_CHARACTERS
from sshwarma.world.mentions import extract_mentions, has_mention


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
