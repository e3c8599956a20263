"""A repetitive answer is noticed; code, tables and lists are not taken for one."""

from __future__ import annotations

import pytest

from sshwarma.models.repetition import RepetitionDetector, trim_repetition

GREETINGS = ("I am glad to see you.\n", "You are glad to see me.\n", "We are so glad.\n")


def noticed_after(text: str, chunk: int = 7) -> int | None:
    """Characters after which the detector ends a text that comes in chunks, or None."""
    detector = RepetitionDetector()
    for start in range(0, len(text), chunk):
        if detector.feed(text[start : start + chunk]):
            return start + chunk
    return None


@pytest.mark.parametrize(
    "text",
    [
        "The project continues. " * 100,
        "Well, hello. " + "hello, " * 200,
        "I said:\n" + "I'm here, I'm here, and I'm here.\n" * 60,
        "".join(f"{n}. The project continues as before.\n" for n in range(200)),
        "".join(GREETINGS[n * n % 3] for n in range(200)),
        "x" * 5_000,
        " \n" * 3_000,
    ],
)
def test_endless_answer_is_noticed_early(text: str) -> None:
    after = noticed_after(text)
    assert after is not None
    assert after < 2_600


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"| {n} | open | alice | a task with a name, number {n} |" for n in range(200)),
        "| --- " * 60 + "|\n" + "-" * 400,
        "\n".join(
            f"    value_{n} = read_value({n})\n    if not value_{n}:\n        return None"
            for n in range(80)
        ),
        "{" + ", ".join(f'"key{n}": null' for n in range(300)) + "}",
        "0, " * 500,
        "ha ha ha ha ha! " * 3 + "That is a good one.",
        "\n".join(["    }", "    )"] * 90),
    ],
)
def test_text_with_a_pattern_is_left_alone(text: str) -> None:
    assert noticed_after(text) is None


def test_repetition_is_cut_to_one_piece() -> None:
    assert trim_repetition("So it is. " + "It goes on. " * 80) == "So it is. It goes on."
    assert trim_repetition("All different words here.") == "All different words here."
