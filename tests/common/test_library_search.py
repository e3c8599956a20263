"""Searches for libraries on a disk without room."""

from __future__ import annotations

import ctypes.util
import errno
import tempfile
from pathlib import Path

import pytest

from sshwarma.common.library_search import tolerate_full_disks


@pytest.mark.process
def test_library_is_not_found_where_no_temporary_file_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by asyncssh, which every command imports, on a machine with a compiler."""

    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    compiler = tmp_path / "gcc"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", fail)
    monkeypatch.setattr(ctypes.util, "find_library", ctypes.util.find_library)
    original = getattr(ctypes.util.find_library, "__wrapped__", ctypes.util.find_library)
    with pytest.raises(FileNotFoundError):
        original("nothing-of-that-name")
    tolerate_full_disks.cache_clear()
    tolerate_full_disks()
    assert ctypes.util.find_library("nothing-of-that-name") is None
    assert ctypes.util.find_library("c")
