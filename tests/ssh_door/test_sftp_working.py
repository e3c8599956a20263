"""A file that a client of sftp is writing, over the content that was there."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.ssh.door.sftp_working import WorkingFile
from sshwarma.workspaces import scratch
from sshwarma.workspaces.blobs import BlobStore
from sshwarma.workspaces.scratch import ScratchFile
from sshwarma.workspaces.tree import FILE_MODE, Entry

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 200), st.binary(min_size=1, max_size=60)),
        st.tuples(st.just("truncate"), st.integers(0, 200), st.just(b"")),
        st.tuples(st.just("read"), st.integers(0, 200), st.just(b"")),
    ),
    max_size=12,
)


def opened(blobs: BlobStore, present: bytes) -> WorkingFile:
    """Open a file that has a content, to be changed."""
    workspaces: Any = type("Workspaces", (), {"blobs": blobs})
    entry = Entry(blobs.store(present), FILE_MODE, len(present))
    return WorkingFile(workspaces, "a.txt", entry, entry)


@given(st.binary(max_size=200), STEPS)
def test_content_is_what_was_there_and_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, present: bytes, steps: list[tuple[str, int, bytes]]
) -> None:
    blobs = BlobStore(tmp_path_factory.mktemp("blobs"))
    model = bytearray(present)

    async def run() -> None:
        working = opened(blobs, present)
        for what, number, data in steps:
            if what == "write":
                await working.write(number, data)
                model.extend(bytes(max(0, number - len(model))))
                model[number : number + len(data)] = data
            elif what == "truncate":
                await working.truncate(number)
                del model[number:]
                model.extend(bytes(number - len(model)))
            else:
                assert await working.read(number, 50) == model[number : number + 50]
            assert working.size == len(model)
        entry = await working.store()
        assert blobs.read(entry.sha256) == bytes(model)
        assert entry.size == len(model)
        working.close()

    with patch.object(scratch, "MAX_SCRATCH_MEMORY_BYTES", 100):
        asyncio.run(run())
    assert not blobs.held
    assert list((blobs.directory / "tmp").iterdir()) == []


@pytest.mark.parametrize("length", [90, 300, 720])
async def test_content_that_is_written_over_is_not_copied(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """scp empties no file before it writes, and cuts it to its length afterwards."""
    blobs = BlobStore(tmp_path_factory.mktemp("blobs"))
    copied: list[object] = []
    monkeypatch.setattr(ScratchFile, "append_from", lambda self, path: copied.append(path))
    working = opened(blobs, bytes(300))
    for offset in range(0, length, 30):
        await working.write(offset, b"x" * 30)
        assert working.size == max(300, offset + 30)
    await working.truncate(length)
    assert blobs.read((await working.store()).sha256) == b"x" * length
    assert not copied
    working.close()


async def test_content_under_an_open_file_is_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Others may remove the last row that names it meanwhile."""
    blobs = BlobStore(tmp_path_factory.mktemp("blobs"))
    working = opened(blobs, b"one two")
    assert list(blobs.held.values()) == [1]
    await working.write(0, b"ONE")
    assert blobs.read((await working.store()).sha256) == b"ONE two"
    working.close()
    working.close()
    assert not blobs.held


async def test_file_is_dropped_after_the_thread_that_copies_to_it(tmp_path: Path) -> None:
    """The number of a closed file may be that of another."""
    blobs = BlobStore(tmp_path / "blobs")
    at_gate, gate = threading.Event(), threading.Event()

    def check_later(sha256: str) -> Path:
        at_gate.set()
        gate.wait(30)
        return blobs.path_of(sha256)

    with patch.object(scratch, "MAX_SCRATCH_MEMORY_BYTES", 1):
        working = opened(blobs, b"what was there")
        await working.write(0, b"new")
        with patch.object(blobs, "check", check_later):
            reading = asyncio.create_task(working.read(5, 9))
            try:
                while not at_gate.is_set():
                    assert not reading.done()
                    await asyncio.sleep(0.001)
                reading.cancel()
                working.close()  # the client has gone
                assert len(list((tmp_path / "blobs" / "tmp").iterdir())) == 1
            finally:
                gate.set()
            with pytest.raises(asyncio.CancelledError):
                await reading
    assert list((tmp_path / "blobs" / "tmp").iterdir()) == []
