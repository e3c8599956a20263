"""Reasoning within an answer, wherever the chunks end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.models.backend import ReasoningDelta, TextFold
from sshwarma.models.think_tags import ThinkTagSplitter


def split(*chunks: str) -> tuple[str, str]:
    """Return the reasoning and the text of an answer that comes in chunks."""
    splitter = ThinkTagSplitter()
    reasoning = text = ""
    for chunk in chunks:
        for part in splitter.split(chunk):
            if isinstance(part, ReasoningDelta):
                reasoning += part.delta
            elif isinstance(part, TextFold):
                reasoning, text = reasoning + text, ""
            else:
                text += part.delta
    return reasoning, text + splitter.end()


@given(st.lists(st.integers(1, 6), max_size=20))
def test_tags_split_over_chunks_are_found(cuts: list[int]) -> None:
    answer, chunks = "\n<think>is 2 < 3?</thin</think>\n\nYes: <think> stays.", []
    for cut in cuts:
        chunks.append(answer[:cut])
        answer = answer[cut:]
    assert split(*chunks, answer) == ("is 2 < 3?</thin", "Yes: <think> stays.")


def test_answer_that_begins_otherwise_has_no_reasoning() -> None:
    assert split("<thi", "s> is no tag") == ("", "<this> is no tag")
    assert split("a <think>b</think>") == ("", "a <think>b</think>")
    assert split("<th") == ("", "<th")
    assert split("<think>never", " ends") == ("never ends", "")


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ("reasoning only</think>Answer", ("reasoning only", "Answer")),
        ("why\n</THINKING>\n\nAnswer </think>", ("why\n", "Answer </think>")),
        ("</think>Answer", ("", "Answer")),
        ("<thinking>a</thinking>b", ("a", "b")),
        ("<THINK>a</Think> b", ("a", "b")),
        ("The tag `</think>` ends it.", ("", "The tag `</think>` ends it.")),
        ("Use <think>a</think>.", ("", "Use <think>a</think>.")),
        ("1 < 2 </thi", ("", "1 < 2 </thi")),
    ],
)
def test_other_spellings_of_the_tags(answer: str, parts: tuple[str, str], size: int) -> None:
    chunks = (answer[start : start + size] for start in range(0, len(answer), size))
    assert split(*chunks) == parts
