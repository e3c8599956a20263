"""Paths in a bundle: those of a workspace, less deep, and without drives."""

from __future__ import annotations

import unicodedata

from sshwarma.common.limits import MAX_BUNDLE_PATH_DEPTH
from sshwarma.workspaces.paths import find_path_problem


def find_bundle_path_problem(path: str) -> str:
    """Return why a path is not valid in a bundle, or ""; the rest of a sentence."""
    if ":" in path:
        return "must not contain a colon, which names a drive or a stream"
    parts = path.split("/")
    if ".." in parts:
        return "must not leave the toolset (..)"
    if len(parts) > MAX_BUNDLE_PATH_DEPTH:
        return f"must have at most {MAX_BUNDLE_PATH_DEPTH} names (got {len(parts)})"
    return find_path_problem(path)


def fold_path(path: str) -> str:
    """Return the same text for paths that some file systems take for the same."""
    folded = unicodedata.normalize("NFC", path).casefold()
    return unicodedata.normalize("NFC", folded)
