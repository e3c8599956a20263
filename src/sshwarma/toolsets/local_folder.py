"""A toolset in a folder of this machine, without an archive."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sshwarma.common.limits import MAX_ARCHIVE_ENTRIES, MAX_BUNDLE_BYTES
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_name
from sshwarma.common.units import MIB
from sshwarma.toolsets.paths import find_bundle_path_problem
from sshwarma.world.errors import Invalid

_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules"})


def read_folder(folder: Path) -> dict[str, bytes]:
    """Read the files of a toolset in a folder, by their paths in it.

    Hidden files, caches and links are left out. Blocks: call it in a thread.

    Raises:
        Invalid: if there are too many, or a name is not valid; the text names it.
        OSError: if one cannot be read.
    """
    files: dict[str, bytes] = {}
    size = 0
    for top, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not _is_left_out(Path(top, name)))
        for file in (Path(top, name) for name in sorted(names)):
            if _is_left_out(file) or not file.is_file():
                continue
            path = file.relative_to(folder).as_posix()
            if problem := find_bundle_path_problem(path):
                raise Invalid(f"File {shorten_name(path)!r} {problem}.")
            size += file.stat().st_size
            if len(files) == MAX_ARCHIVE_ENTRIES:
                raise Invalid(f"{with_limit('The folder has too many files', len(files))}.")
            if size > MAX_BUNDLE_BYTES:
                limit = f"{MAX_BUNDLE_BYTES // MIB} MiB"
                raise Invalid(f"{with_limit('The folder is too large', limit)}.")
            files[path] = file.read_bytes()
    return files


def _raise(error: OSError) -> None:
    raise error


def _is_left_out(path: Path) -> bool:
    return path.name.startswith(".") or path.name in _LEFT_OUT or path.is_symlink()
