"""The state block of a reply: found in all forms, never shown while it streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_NOTES_CHARACTERS
from sshwarma.models.notes_block import parse_reply, strip_notes_block, trim_answer

BLOCK = "---STATE---\nGoal: a\n---END STATE---"


@pytest.mark.parametrize(
    ("reply", "text", "state"),
    [
        ("Hello.", "Hello.", None),
        (f"Hello.\n{BLOCK}", "Hello.", "Goal: a"),
        (f"Hello.\n\n{BLOCK}\nAnd more.", "Hello.\n\nAnd more.", "Goal: a"),
        ("Hello.\n---STATE---\nGoal: a", "Hello.", "Goal: a"),  # no end
        (f"{BLOCK}\nx\n---STATE---\nGoal: b\n---END STATE---", "x", "Goal: b"),  # the last counts
        ("Hi\n### STATE\nGoal: a\n", "Hi", "Goal: a"),
        ("Hi\n## State:\nGoal: a\n## Next\nmore", "Hi\n## Next\nmore", "Goal: a"),
        (f"See:\n```\n{BLOCK}\n```", f"See:\n```\n{BLOCK}\n```", None),  # quoted
        ("The ---STATE--- marker", "The ---STATE--- marker", None),  # within a line
        ("--- state ---\nGoal: a\n--- end state ---", "", "Goal: a"),
        ("---STATE---\n---END STATE---", "", ""),
        ("Hi\n---STATE---\nGoal: <one line>\nContext: <facts>\n---END STATE---", "Hi", None),
        ("---STATE---\nGoal: a\nResolved: <points>\n---END STATE---", "", "Goal: a"),
    ],
)
def test_reply_is_split_into_text_and_notes(reply: str, text: str, state: str | None) -> None:
    found = parse_reply(reply)
    assert (found.text, found.notes) == (text, state)


def test_notes_over_the_limit_are_cut_and_counted() -> None:
    found = parse_reply("---STATE---\n" + "x" * (MAX_NOTES_CHARACTERS + 7))
    assert found.notes == "x" * MAX_NOTES_CHARACTERS
    assert found.cut_characters == 7


pieces = st.lists(
    st.sampled_from(
        [
            "---STATE---",
            "---END STATE---",
            "### STATE",
            "# Title",
            "```",
            "~~~",
            "--",
            "-",
            "word",
            "",
        ]
    )
    | st.text("-#STAE\n x", max_size=6),
    max_size=12,
).map("\n".join)


@given(pieces)
def test_notes_block_is_hidden_while_streaming(reply: str) -> None:
    whole = parse_reply(reply)
    for end in range(len(reply) + 1):
        seen = strip_notes_block(reply[:end])
        assert "---END STATE---" not in seen or "---END STATE---" in whole.text
        if end == len(reply) and whole.notes is not None and seen.strip():
            assert whole.text.startswith(seen.strip().split("\n")[0])


@given(st.text(max_size=200).filter(lambda text: "state" not in text.lower()))
def test_text_without_a_block_is_streamed_unchanged(text: str) -> None:
    seen = strip_notes_block(text)
    assert text.startswith(seen)
    held = text[len(seen) :]
    assert "".join(held.split()).strip("-#STAEstae:") == ""


@pytest.mark.parametrize(
    ("answer", "trimmed"),
    [
        (" Hello.\n", "Hello."),
        ("\n\n  Hello.\n\n", "Hello."),
        ("\n    @tiny run this\n    more\n", "    @tiny run this\n    more"),
        ("\t@tiny run this", "\t@tiny run this"),
        ("    ", ""),
    ],
)
def test_code_at_the_beginning_of_an_answer_stays_code(answer: str, trimmed: str) -> None:
    assert trim_answer(answer) == trimmed
