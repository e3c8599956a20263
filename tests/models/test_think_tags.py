"""Reasoning within an answer, wherever the chunks end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sshwarma.models.backend import ReasoningDelta
from sshwarma.models.think_tags import ThinkTagSplitter


def split(*chunks: str) -> tuple[str, str]:
    """Return the reasoning and the text of an answer that comes in chunks."""
    splitter = ThinkTagSplitter()
    reasoning = text = ""
    for chunk in chunks:
        for part in splitter.split(chunk):
            if isinstance(part, ReasoningDelta):
                reasoning += part.delta
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
