"""Vectors of texts from learned word vectors, which need no library."""

from __future__ import annotations

import math

import pytest

from sshwarma.tools import word_averages
from sshwarma.tools.search import cosine_similarities
from sshwarma.tools.word_averages import MEANING_DIMENSIONS, WordAverages


def test_vector_of_a_text_has_length_one_and_that_of_none_is_zero() -> None:
    text, nothing, unknown = WordAverages().embed(["send a letter", "", "xqzzv 12"])
    assert math.hypot(*text) == pytest.approx(1.0)
    assert nothing == unknown == [0.0] * MEANING_DIMENSIONS


def test_query_is_nearer_to_a_text_with_its_meaning_in_other_words() -> None:
    averages = WordAverages()
    query = averages.embed_query("how warm will it be on sunday")
    texts = ["forecast: Weather of the next days", "refund: Give money back", "push: Send commits"]
    weather, money, code = cosine_similarities(query, averages.embed(texts))
    assert weather > max(money, code) + 0.1


def test_case_camel_case_and_underscores_of_a_text_do_not_matter() -> None:
    first, second, third = WordAverages().embed(["send Email", "sendEmail", "send_email"])
    assert first == second == third


def test_table_for_other_words_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_averages, "read_table", lambda name: b"short")
    word_averages._read_meanings.cache_clear()
    with pytest.raises(ValueError, match="other words"):
        WordAverages().embed(["letter"])
    word_averages._read_meanings.cache_clear()


def test_words_weigh_by_the_scale_of_their_row() -> None:
    """A word that says little, such as `the`, hardly turns a text."""
    averages = WordAverages()
    letter, with_article, with_word = averages.embed(["letter", "the letter", "weather letter"])
    [article], [word] = (cosine_similarities(letter, [text]) for text in (with_article, with_word))
    assert article > 0.95 > word
