"""Units of sizes."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
"""Bytes of a kibibyte."""

MIB: Final = 1024 * KIB
"""Bytes of a mebibyte."""
