"""The estimate of tokens, beside js-tiktoken's counts of o200k of equal texts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import pytest

from sshwarma.wrap import tokens as estimates
from sshwarma.wrap.layers import ContextMessage, Layer, fit_layers
from sshwarma.wrap.tokens import (
    MAX_REMEMBERED_CHARACTERS,
    count_fitting_characters,
    estimate_tokens,
)

SAMPLES: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "token_samples.json").read_text()
)
"""Texts with their count: prose of 28 languages, code, JSON, logs, hex, base64, random text."""

NAME: Final = "hook:wrap:a_name_of_a_layer_that_is_long"
MAX_RATES: Final = {"english": 1.35, "english tale": 1.35, "python": 1.5, "json": 1.5}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["name"])
def test_estimate_is_no_less_than_the_count(sample: dict[str, Any]) -> None:
    estimate = estimate_tokens(sample["text"])
    assert sample["o200k"] <= estimate
    assert estimate <= sample["o200k"] * MAX_RATES.get(sample["name"], 3)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["name"])
def test_fitting_characters_fill_the_tokens(sample: dict[str, Any]) -> None:
    text = sample["text"]
    half = estimate_tokens(text) // 2
    kept = count_fitting_characters(text, half)
    assert estimate_tokens(text[:kept]) <= half
    assert estimate_tokens(text[:kept]) >= half * 0.7


def test_a_megabyte_takes_less_than_two_seconds() -> None:
    text = next(sample["text"] for sample in SAMPLES if sample["name"] == "english") * 2_000
    began = time.process_time()
    estimate_tokens(text)
    assert time.process_time() - began < 2


def test_cut_layer_fits_with_the_mark_of_a_long_name() -> None:
    text = "A line of the description. " * 2_000
    layers = [
        Layer(f"{NAME}_1", "room", "system", text=text, budget=5_000),
        Layer(
            f"{NAME}_2",
            "room",
            "conversation",
            lines=(ContextMessage("user", text),),
            budget=5_000,
        ),
    ]
    for tokens in (100, 200, 1_000):
        assert sum(layer.tokens for layer in fit_layers(layers, tokens)) <= tokens


def test_long_texts_are_not_remembered() -> None:
    """A result of megabytes would be kept for its estimate."""
    estimates._estimate_line.cache_clear()
    for length in (MAX_REMEMBERED_CHARACTERS, MAX_REMEMBERED_CHARACTERS + 1):
        estimate_tokens("x" * length)
    assert estimates._estimate_line.cache_info().currsize == 1
