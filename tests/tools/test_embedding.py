"""The sentence model: how it reads texts, and when it is used."""

from __future__ import annotations

import importlib.util
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.tools.embedding import MiniLM, choose_embedder, split_into_pieces
from sshwarma.tools.word_vectors import read_vocabulary

PIECES = read_vocabulary()

needs_model = pytest.mark.skipif(not MiniLM.is_installed(), reason="the extra is not installed")


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Don't PUSH my_file.py", ["don", "'", "t", "push", "my", "_", "file", ".", "p", "##y"]),
        ("compile the Dockerfile", ["com", "##pile", "the", "dock", "##er", "##fi", "##le"]),
        ("Écrire naïve", ["ec", "##ri", "##re", "naive"]),
        ("\u0007 \U0001f600", ["[UNK]", "[UNK]"]),
        ("x" * 101, ["[UNK]"]),
        ("", []),
    ],
)
def test_text_is_split_into_the_longest_known_pieces(text: str, pieces: list[str]) -> None:
    assert split_into_pieces(text, PIECES) == pieces


@given(st.text(max_size=80))
def test_every_text_has_only_known_pieces(text: str) -> None:
    assert set(split_into_pieces(text, PIECES)) <= PIECES.keys()


def test_sentence_model_is_chosen_if_both_packages_are_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert isinstance(choose_embedder(), MiniLM)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: object() if name == "onnxruntime" else None
    )
    assert choose_embedder() is None


@needs_model
def test_sentence_model_gives_unit_vectors_near_for_the_same_meaning() -> None:
    model = MiniLM()
    mail, letter, cluster, nothing = model.embed(
        ["send an email", "write a letter to somebody", "restart the kubernetes pod", ""]
    )
    assert len(mail) == model.dimensions
    assert math.hypot(*mail) == pytest.approx(1.0)
    assert not any(nothing)

    def cosine(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert cosine(mail, letter) > cosine(mail, cluster) + 0.2
    assert model.embed(["other", "send an email"])[1] == mail
    query = model.embed_query("send an email")
    assert math.hypot(*query) == pytest.approx(1.0)
    assert query != mail, "queries are bent towards texts"
    assert cosine(query, mail) > 0.8
