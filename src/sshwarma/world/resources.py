"""Shipped files: inside the installed package, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path


def resource_dir(folder: str) -> Path:
    """Return the path of `embedded` or `migrations`."""
    package = Path(__file__).resolve().parent.parent
    path = package / folder
    return path if path.is_dir() else package.parent.parent / folder
