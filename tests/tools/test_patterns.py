"""Patterns of schemas: which are run, and at which size the others are accepted."""

from __future__ import annotations

import math

import pytest

from sshwarma.common.limits import (
    MAX_MATCH_STEPS,
    MAX_PATTERNS,
    MAX_PATTERNS_SIZE,
    MAX_SEARCHED_LINE_CHARACTERS,
)
from sshwarma.tools import patterns
from sshwarma.tools.patterns import PatternMatcher, compile_search, measure_pattern
from sshwarma.world.errors import Invalid

USUAL = {
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$": "x",
    r"^\d{4}-\d{2}-\d{2}$": "2026-1-1",
    r"^[A-Za-z0-9_-]{1,128}$": "a b",
    r"^.{1,255}$": "",
    r"^[^/]{1,255}$": "a/b",
    r"^[\w.+-]+@[\w-]+\.[\w.]+$": "nobody",
    r"^(?:https?|ftp)://[^\s]+$": "gopher://x",
}


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_pattern_is_run(pattern: str) -> None:
    assert measure_pattern(pattern) <= MAX_PATTERNS_SIZE
    assert not PatternMatcher().matches(pattern, USUAL[pattern])


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w{200}", r"\p{L}{20,}{20,}", r"\P{Lu}{100}", r"\W+{0,30}", r"(a{100}){100}",
        r"(.{0,100}){0,20}x", "((a{20}){20}){20}", r"([]\w]){100}", r"[[\w]&&[^a]]{100}",
        r"(?i)[\u{e9}-\u{10ffff}]{30}", "(?x)(a{60}#)\n){60}", "(a", "a)", "[a", "a" * 201,
        "\u00e9{1000}", r"\u{e9}{1000}", ".{1000}",
    ],
)  # fmt: skip
def test_pattern_that_takes_too_long_to_compile_is_accepted(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "_compile_pattern", lambda _: pytest.fail("it was compiled"))
    assert PatternMatcher().matches(pattern, "x")


def test_patterns_of_one_call_share_their_limits() -> None:
    matcher = PatternMatcher()
    assert not matcher.matches(f"^a{{{MAX_PATTERNS_SIZE - 10}}}$", "x")
    assert matcher.matches("^b{20}$", "x")
    many = PatternMatcher()
    assert [many.matches(f"^{n}$", "x") for n in range(MAX_PATTERNS)].count(True) == 0
    assert many.matches("^more$", "x")
    assert not many.matches("^0$", "x")


def test_long_text_is_accepted_by_a_large_pattern() -> None:
    text = "a" * 5_000
    assert not PatternMatcher().matches("^b+$", text)
    assert PatternMatcher().matches("^b{1000}$", text)
    assert not PatternMatcher().matches("^b{1000}$", text[:1000])


def test_size_counts_repetitions() -> None:
    assert measure_pattern("a{10}") == 10
    assert measure_pattern("a{3,10}b") == 12
    assert measure_pattern("(ab){10}") == 30
    assert measure_pattern(r"\(a{10}\)") == 12
    assert measure_pattern("[)]{10}") == measure_pattern("[]]{10}") == 60
    assert measure_pattern("a{x}") == 4
    assert measure_pattern("a*b?") == 4
    assert measure_pattern("(") == math.inf


@pytest.mark.parametrize("repetition", ["*" * 100, "?" * 100, "+" * 100, "{0,1}" * 30, "{1,}" * 30])
def test_stacked_repetitions_count_as_parts(repetition: str) -> None:
    """400 of them were 2 parts each, and took 12 s to match with 10,000 letters."""
    pattern = f"(a{repetition}){{400}}"
    assert measure_pattern(pattern) > 400 * 30
    with pytest.raises(Invalid, match="too large"):
        compile_search(pattern)


def test_search_of_a_long_line_matches_its_first_characters() -> None:
    small, large = compile_search("b"), compile_search("[ac]{140}|b")
    assert small.max_characters == MAX_SEARCHED_LINE_CHARACTERS
    assert large.max_characters < small.max_characters
    for matcher in (small, large):
        end = matcher.max_characters
        assert matcher.matches("-" * (end - 1) + "b")
        assert not matcher.matches("-" * end + "b")
    assert large.max_characters * measure_pattern("[ac]{140}|b") <= MAX_MATCH_STEPS


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "a ( is not closed"), ("[", "a [ is not closed"), ("[a-", "a [ is not closed"),
        ("a)", "a ) closes nothing"), ("*x", "repetition operator missing expression"),
        ("a{2", "unclosed counted repetition"),
    ],
)  # fmt: skip
def test_search_says_why_a_pattern_is_no_regular_expression(pattern: str, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        compile_search(pattern)
    assert refused.value.message == (
        f"pattern: {pattern!r} is no regular expression that is known here: {reason}."
    )
