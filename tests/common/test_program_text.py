"""Text for readers that cannot type: nothing that is typed, and nothing else left out."""

from __future__ import annotations

import pytest

from sshwarma import verbs
from sshwarma.common.program_text import drop_commands, names_commands
from sshwarma.verbs.registry import every_verb
from sshwarma.verbs.verb import Verb
from sshwarma.world.errors import NotFound, RateLimited

verbs.load_verbs()


@pytest.mark.parametrize(
    "text",
    [
        "/rooms lists them.",
        "Wait 3 s; Up brings the line back.",
        "A line without a slash is said.",
        "From a shell: ssh HOST put NAME < file",
        "Removed dice. (/tool list)",
    ],
)
def test_commands_and_keys_are_detected(text: str) -> None:
    assert names_commands(text)


@pytest.mark.parametrize(
    "text",
    [
        "There is no file /srv/project/notes.md.",
        "https://example.org/mcp answers.",
        "Needs read/write.",
        "It takes a/b or ./c.",
        "Get/set the vibe.",
    ],
)
def test_paths_and_urls_are_not_commands(text: str) -> None:
    assert drop_commands(text) == text


def test_only_sentences_with_commands_are_dropped() -> None:
    text = "Dropped plan. /restore plan brings it back. Two are left."
    assert drop_commands(text) == "Dropped plan. Two are left."


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("It needs a URL (--url in /model add).", "It needs a URL."),
        ("its sign-in has expired today: /mcp login x", "its sign-in has expired today"),
        (
            "Over the limit of tokens; an owner sets it with /model set q.",
            "Over the limit of tokens.",
        ),
        ("Example: /put x = y", ""),
        ("Set it here (see /help sign-in) or there.", "Set it here or there."),
    ],
)
def test_a_clause_that_names_a_command_is_left_out(text: str, kept: str) -> None:
    assert drop_commands(text) == kept


def test_refusal_for_a_program_omits_commands() -> None:
    refused = NotFound("Unknown room x.", hint="/rooms lists them.")
    assert str(refused) == "Unknown room x. /rooms lists them."
    assert refused.program_text == "Unknown room x."
    near = NotFound("Unknown room denn.", hint="Did you mean den?")
    assert near.program_text == "Unknown room denn. Did you mean den?"
    busy = RateLimited("Too many lines.", retry_after_seconds=2.1, hint="Up brings it back.")
    assert busy.program_text == "Too many lines. Wait 3 s."


@pytest.mark.parametrize(
    "verb", [verb for verb in every_verb() if verb.tool_spec is not None], ids=lambda v: v.path
)
def test_verb_descriptions_for_programs_name_no_commands(verb: Verb) -> None:
    assert verb.program_description
    assert not names_commands(verb.program_description)
    for name, described in verb.input_schema["properties"].items():
        assert not names_commands(described["description"]), name
