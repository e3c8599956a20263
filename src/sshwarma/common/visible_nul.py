"""The character NUL, which many programs take for the end of a text."""

from __future__ import annotations

from typing import Final

VISIBLE_NUL: Final = "\N{SYMBOL FOR NULL}"
"""Shown and stored in place of a NUL (U+2400)."""


def replace_nul(text: str) -> str:
    """Return a text with every NUL made visible."""
    return text.replace("\0", VISIBLE_NUL)
