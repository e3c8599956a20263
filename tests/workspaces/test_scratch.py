"""Contents that are written anywhere before they are stored."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_SCRATCH_MEMORY_BYTES
from sshwarma.common.units import HOUR_SECONDS
from sshwarma.workspaces import scratch as module
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.scratch import ScratchFile

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 200), st.binary(max_size=60)),
        st.tuples(st.just("truncate"), st.integers(0, 200), st.just(b"")),
    ),
    max_size=12,
)


def write_model(model: bytearray, offset: int, data: bytes) -> None:
    if data:
        model.extend(bytes(max(0, offset - len(model))))
        model[offset : offset + len(data)] = data


@given(STEPS)
def test_content_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, bytes]]
) -> None:
    blobs = BlobStore(tmp_path_factory.mktemp("blobs"))
    model = bytearray()
    with patch.object(module, "MAX_SCRATCH_MEMORY_BYTES", 100):
        scratch = ScratchFile(blobs)
        for what, number, data in steps:
            if what == "write":
                scratch.write(number, data)
                write_model(model, number, data)
            else:
                scratch.truncate(number)
                del model[number:]
                model.extend(bytes(number - len(model)))
            assert scratch.size == len(model)
            assert scratch.read(0, 1_000) == model
            assert scratch.read(7, 20) == model[7:27]
        sha256 = scratch.finish()
        assert scratch.read(0, 1_000) == model
        scratch.close()
    assert sha256 == hashlib.sha256(model).hexdigest()
    assert blobs.read(sha256) == bytes(model)
    assert list((blobs.directory / "tmp").iterdir()) == []


def test_large_content_leaves_the_memory(tmp_path: Path) -> None:
    scratch = ScratchFile(BlobStore(tmp_path))
    scratch.write(0, bytes(MAX_SCRATCH_MEMORY_BYTES))
    assert not (tmp_path / "tmp").exists()
    scratch.write(MAX_SCRATCH_MEMORY_BYTES, b"x")
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    scratch.close()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_sweep_deletes_no_content_that_is_open(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    scratch = ScratchFile(blobs)
    scratch.truncate(2 * MAX_SCRATCH_MEMORY_BYTES)
    (left,) = (tmp_path / "tmp").iterdir()
    abandoned = tmp_path / "tmp" / "abandoned"
    abandoned.touch()
    long_ago = time.time() - 2 * HOUR_SECONDS
    for path in (left, abandoned):
        os.utime(path, (long_ago, long_ago))
    blobs.sweep(())
    assert list((tmp_path / "tmp").iterdir()) == [left]
    assert blobs.read(scratch.finish()) == bytes(2 * MAX_SCRATCH_MEMORY_BYTES)
    scratch.close()
